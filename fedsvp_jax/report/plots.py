"""Plots as tables: named curves, each with its columns, and the axes that they share.

The page's script (`assets/common.js`) draws them, and writes them as SVG and CSV.
"""

import dataclasses
from collections.abc import Sequence

from .style import FIRST, Look

Numbers = Sequence[float | None]


@dataclasses.dataclass(frozen=True)
class Series:
    """One curve; None is a gap. The intervals are empty, or as long as the curve."""

    name: str
    x: Numbers
    y: Numbers
    lower: Numbers = ()
    upper: Numbers = ()
    look: Look = FIRST


@dataclasses.dataclass(frozen=True)
class Plot:
    """Curves on the same axes. Over rounds intervals are bands, elsewhere bars."""

    id: str  # safe as an HTML id and a file name
    title: str
    note: str  # one sentence under the title: what to look for
    y_title: str
    series: Sequence[Series] = ()
    x_title: str = "round"
    log: str = ""  # the logarithmic axes: "", "x", "y" or "xy"
    percent: str = ""  # the axes that show shares in per cent, likewise

    @property
    def by_round(self) -> bool:
        """Whether x counts rounds, so that its axis has whole numbers only."""
        return self.x_title == "round"


def drawable(plots: Sequence[Plot]) -> list[Plot]:
    """The plots that show something.

    A curve without a number, or of zeros alone, is left out; so is a plot over rounds
    on which no curve changes.
    """
    filtered = [
        dataclasses.replace(plot, series=[s for s in plot.series if any(s.y)])
        for plot in plots
    ]
    return [
        plot
        for plot in filtered
        if any(len({*s.y} - {None}) > plot.by_round for s in plot.series)
    ]
