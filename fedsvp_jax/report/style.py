"""Colours, markers and dashes, the same on pages and in figures.

`_MECHANISMS` fixes the look of each mechanism. `plotly_spec` and `figures` both read
it, so that a mechanism looks the same on every page and in every figure. What is no
mechanism (a folder, an accounting method, an attribute) is numbered.
"""

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

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
# Viridis with its palest end darkened: ordered in lightness, so readable in grey.
SEQUENTIAL = ("#440154", "#414487", "#2A788E", "#22A884", "#7AC143", "#D9C31E")
GREY = "#6E6E6E"

# plotly's name -> matplotlib's. A look is written with plotly's names.
_DASHES: dict[str, Any] = {
    "solid": "solid",
    "dash": (0, (4, 2)),
    "dot": (0, (1, 1.5)),
    "dashdot": (0, (5, 2, 1, 2)),
    "longdash": (0, (8, 2)),
    "longdashdot": (0, (6, 1.5, 1, 1.5, 1, 1.5)),
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
    """How one curve is drawn. Marker and dash tell it apart where colour is lost."""

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


_BLACK, _BLUE, _VERMILION, _GREEN, _PURPLE, _ORANGE, _SKY, _OLIVE = OKABE_ITO
_MECHANISMS = {
    "none": Look(_BLACK, "circle", "solid"),
    "nbafl": Look(_BLUE, "square", "dash"),
    "time_varying": Look(_ORANGE, "star", "dot"),
    "reestimation": Look(_SKY, "diamond", "dashdot"),
    "dpa": Look(_OLIVE, "triangle-down", "longdash"),
    "dp_fedavg": Look(_PURPLE, "cross", "longdashdot"),
    "fedsdp": Look(_GREEN, "x", "dash"),
    "fedsva": Look(_VERMILION, "triangle-up", "solid"),
    "gaussian": Look(GREY, "triangle-left", "dot"),
}
_OUTSIDE_MARKERS = ("pentagon", "hexagon", "triangle-right")  # of no built-in mechanism


def of_mechanism(name: str) -> Look:
    """The fixed look of a mechanism; one from outside gets its look from its name."""
    if name in _MECHANISMS:
        return _MECHANISMS[name]
    number = zlib.crc32(name.encode())
    return Look(
        OKABE_ITO[1 + number % (len(OKABE_ITO) - 1)],
        _OUTSIDE_MARKERS[number // 7 % len(_OUTSIDE_MARKERS)],
        [*_DASHES][number // 21 % len(_DASHES)],
    )


def numbered(place: int) -> Look:
    """The look of curve number `place` (from 0) of a figure without mechanisms."""
    return Look(
        OKABE_ITO[place % len(OKABE_ITO)],
        [*_MARKERS][place % len(_MARKERS)],
        [*_DASHES][place % len(_DASHES)],
    )


def shaded(look: Look, place: int, count: int) -> Look:
    """The look of level `place` (from 0) of `count` ordered levels, as of ε.

    Colour c is mixed with black for the lower levels and with white for the upper ones:

        c·(1 − w) + w·white or black,  w = 0.4·|2·place/(count − 1) − 1|
    """
    if count < 2:
        return look
    position = 2 * place / (count - 1) - 1
    end, weight = 255 * (position > 0), 0.4 * abs(position)
    mixed = (
        round(channel * (1 - weight) + weight * end) for channel in channels(look.color)
    )
    return look._replace(color="#" + "".join(f"{value:02X}" for value in mixed))


def channels(color: str) -> Sequence[int]:
    """Red, green and blue of "#RRGGBB", each 0 to 255."""
    return [int(color[i : i + 2], 16) for i in (1, 3, 5)]
