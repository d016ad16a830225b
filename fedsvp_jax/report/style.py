"""Colours, markers and dashes, the same on all pages.

A mechanism looks the same on every page, by `of_mechanism`. What is no mechanism (a
folder, an accounting method, an attribute) is numbered.
"""

import zlib
from pathlib import Path
from typing import NamedTuple

from fedsvp_jax import mechanisms
from fedsvp_jax.core.files import toml_beside


def asset(name: str) -> str:
    """The text of a file of report/assets."""
    return (Path(__file__).with_name("assets") / name).read_text("utf-8")


_LOOKS = toml_beside(__file__, "assets/style.toml")
COLORS = _LOOKS["colors"]
GREY = COLORS[-1]
SECOND = "dot"  # the dash of a second curve in one look


class Look(NamedTuple):
    """The look of a curve. Marker and dash tell it apart where colour is lost."""

    color: str  # "#RRGGBB", or with its opacity "#RRGGBBAA"
    marker: str  # as plotly names it; "" for a line without points
    dash: str  # as plotly names it


FIRST = Look(COLORS[0], "circle", "solid")


def of_mechanism(name: str) -> Look:
    """The look of a mechanism, by its place in the registry; of no other, by its name.

    Results of a mechanism from outside can be shown where it is not registered.
    """
    names = mechanisms.mechanism_names()
    return numbered(names.index(name) if name in names else zlib.crc32(name.encode()))


def numbered(place: int) -> Look:
    """The look of curve number `place` (from 0).

    Each list begins again at its end: colour and marker tell 36 apart.
    """
    return Look(*(cycle[place % len(cycle)] for cycle in _LOOKS.values()))


def shaded(look: Look, place: int, count: int) -> Look:
    """The look of level `place` (from 0) of `count` ordered levels, as of ε.

    The colour's opacity falls from 1 at the lowest level to 0.45 at the highest.
    """
    opacity = 1 - 0.55 * place / max(count - 1, 1)
    return look._replace(color=f"{look.color}{round(255 * opacity):02X}")
