"""Colours, markers and dashes, the same on pages and in figures.

Pages and `figures` both read `of_mechanism`, so that a mechanism looks the same
on every page and in every figure. What is no mechanism (a folder, an accounting method,
an attribute) is numbered.
"""

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from fedsvp_jax import mechanisms

# Okabe and Ito's palette (2008), made for colour-blind readers; black first.
OKABE_ITO = (
    "#000000",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#8C6D00",  # the palette's yellow, darkened: the original fades on white
)
GREY = "#6E6E6E"

# plotly's name -> matplotlib's. A look is written with plotly's names.
SECOND = "dot"  # of a second curve in one look
_DASHES: dict[str, Any] = {
    "solid": "solid",
    "dash": (0, (4, 2)),
    "dashdot": (0, (5, 2, 1, 2)),
    "longdash": (0, (8, 2)),
    "longdashdot": (0, (6, 1.5, 1, 1.5, 1, 1.5)),
    SECOND: (0, (1, 1.5)),
}
_MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle-up": "^",
    "diamond": "D",
    "triangle-down": "v",
    "cross": "P",
    "x": "X",
    "star": "*",
    "triangle-left": "<",
    "pentagon": "p",
    "hexagon": "h",
    "triangle-right": ">",
}


class Look(NamedTuple):
    """The look of a curve. Marker and dash tell it apart where colour is lost."""

    color: str  # "#RRGGBB"
    marker: str  # as plotly names it
    dash: str  # as plotly names it

    def for_matplotlib(self) -> dict[str, Any]:
        """The same as arguments of matplotlib's `plot`."""
        return {
            "color": self.color,
            "marker": _MARKERS[self.marker],
            "linestyle": _DASHES[self.dash],
        }


def of_mechanism(name: str) -> Look:
    """The look of a mechanism, by its place in the registry; of no other, by its name.

    Results of a mechanism from outside can be shown where it is not registered.
    """
    names = mechanisms.mechanism_names()
    place = names.index(name) if name in names else zlib.crc32(name.encode())
    return _look(place, (*OKABE_ITO, GREY))


def numbered(place: int) -> Look:
    """The look of curve number `place` (from 0) of a figure without mechanisms."""
    return _look(place, OKABE_ITO)


def _look(place: int, colors: Sequence[str]) -> Look:
    """Each list begins again at its end: colour and marker tell 36 apart."""
    cycles = (colors, [*_MARKERS], [*_DASHES][:-1])
    return Look(*(cycle[place % len(cycle)] for cycle in cycles))


def shaded(look: Look, place: int, count: int) -> Look:
    """The look of level `place` (from 0) of `count` ordered levels, as of ε.

    Colour c is mixed with black for the lower levels and with white for the upper ones:

        c·(1 − w) + w·white or black,  w = 0.4·|2·place/(count − 1) − 1|
    """
    if count < 2:
        return look
    position = 2 * place / (count - 1) - 1
    end = 255 if position > 0 else 0
    weight = 0.4 * abs(position)
    mixed = (
        round(channel * (1 - weight) + weight * end) for channel in channels(look.color)
    )
    return look._replace(color="#" + "".join(f"{value:02X}" for value in mixed))


def channels(color: str) -> Sequence[int]:
    """Red, green and blue of "#RRGGBB", each 0 to 255."""
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]
