"""The content of plots, independent of what draws them.

A plot is a list of series in named panels. `plotly_spec` draws it for the page,
`figures` draws it for papers, and `csv_columns` is its download.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from fedsvp_jax.report.style import Look, numbered

_PLAIN = numbered(1)
Numbers = Sequence[float | None]


@dataclasses.dataclass(frozen=True)
class Series:
    """One curve; every sequence has the same length, None is a gap."""

    keys: dict[str, Any]  # identifies the curve; the first columns of the CSV
    name: str  # in the legend, where all curves share one panel
    x: Numbers
    y: Numbers
    lower: Numbers | None = None  # of the band or interval around y
    upper: Numbers | None = None
    panel: str = ""  # "": shown in every panel
    name_in_panel: str = ""  # in the legend of small multiples, below the panel's name
    look: Look = _PLAIN
    marks: bool = False  # draw markers with interval bars instead of a band


@dataclasses.dataclass(frozen=True)
class Plot:
    """A figure, split into small multiples where its series name several panels."""

    id: str  # safe as an HTML id and a file name
    title: str
    note: str  # one sentence under the title: what to look for
    x_title: str
    y_title: str
    series: list[Series]
    log_x: bool = False
    log_y: bool = False
    percent_y: bool = False

    @property
    def counts_rounds(self) -> bool:
        """Whether x counts rounds, so that its axis has whole numbers only."""
        return self.x_title == "round"

    @property
    def panels(self) -> list[str]:
        """The panels' names in order; one panel named "" where no series names any."""
        names = dict.fromkeys(s.panel for s in self.series if s.panel)
        return list(names) or [""]


@dataclasses.dataclass(frozen=True)
class HeatMap:
    """A table of numbers as colours; a cell without a number stays empty."""

    id: str
    title: str
    note: str
    x_title: str
    y_title: str
    z_title: str
    columns: Sequence[str]
    rows: Sequence[str]
    cells: Sequence[Numbers]  # one sequence per row

    @property
    def panels(self) -> list[str]:
        """One panel without a name."""
        return [""]


def heat_map_columns(plot: HeatMap) -> dict[str, list[Any]]:
    """The numbers as columns of equal length, one row per cell."""
    width = len(plot.columns)
    return {
        plot.y_title: [row for row in plot.rows for _ in range(width)],
        plot.x_title: list(plot.columns) * len(plot.rows),
        plot.z_title: [value for row in plot.cells for value in row],
    }


def csv_columns(plot: Plot) -> dict[str, list[Any]]:
    """The plotted numbers as columns of equal length, one row per point."""
    columns: dict[str, list[Any]] = {
        key: [series.keys.get(key) for series in plot.series for _ in series.x]
        for key in dict.fromkeys(key for series in plot.series for key in series.keys)
    }
    columns[plot.x_title] = [x for series in plot.series for x in series.x]
    columns[plot.y_title] = [y for series in plot.series for y in series.y]
    if any(series.lower is not None for series in plot.series):
        for name in ("lower", "upper"):
            edges = (
                getattr(series, name) or [None] * len(series.x)
                for series in plot.series
            )
            columns[name] = list(itertools.chain.from_iterable(edges))
    return columns


def drawable(plots: Sequence[Plot]) -> list[Plot]:
    """Leaves out series without a number, and plots without a series."""
    filtered = (
        dataclasses.replace(
            plot,
            series=[s for s in plot.series if any(y is not None for y in s.y)],
        )
        for plot in plots
    )
    return [plot for plot in filtered if plot.series]


def noisy(series: Sequence[Series]) -> list[Series]:
    """Leaves out curves that are zero everywhere: those of mechanisms without noise."""
    return [curve for curve in series if any(curve.y)]
