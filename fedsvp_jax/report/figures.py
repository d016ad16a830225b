"""Figures for papers, drawn by matplotlib: SVG or PDF at a column's width, or PNG.

Everything that draws axes goes through `panels`, so that fonts, widths and ticks are
the same in every figure of the package.
"""

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.core import extras

from . import curves, read
from .plots import Plot

COLUMN = 3.5  # inches, of a two-column paper
FORMATS = ("svg", "pdf", "png")
_PLOT_HEIGHT = 2.05  # inches, with title and axis labels, without the legend
_TEXT_LINE = 0.145  # inches
_LINE = 50  # characters of the title below an axis
_STYLE = Path(__file__).with_name("assets") / "paper.mplstyle"
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # equal files, too


def draw(folders: Sequence[str | Path], place: str | Path, kind: str) -> list[Path]:
    """Draws every plot of a run or a sweep, or of several on the same axes.

    Each is by itself, one column wide.

    Args:
      folders: of runs and sweeps.
      place: the folder that the figures go to.
      kind: svg, pdf or png.

    Returns:
      The paths PLACE/PLOT.KIND.

    Raises:
      ValueError: a file is missing or damaged, or the format is unknown.
    """
    if len(folders) > 1:
        plots = curves.compare_curves(read.read_all(folders))
    else:
        plots = curves.curves(read.read_folder(*folders))
    Path(place).mkdir(parents=True, exist_ok=True)
    return [
        panels(Path(place) / f"{plot.id}.{kind}", [partial(_plot, plot=plot)])
        for plot in plots
    ]


def panels(path: Path, draws: Sequence[Callable[[Any], None]]) -> Path:
    """Draws one panel at a column's width, or several in two columns.

    Each panel has its own legend below it.

    Args:
      path: where to write; its suffix (.svg, .pdf, .png) chooses the format.
      draws: one function per panel; it is called with matplotlib's axes.

    Returns:
      The figure's path.

    Raises:
      ValueError: matplotlib knows no such format.
    """
    # The object interface, so that no window system or global state is touched.
    with extras.needed("report", "a figure"):
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    kind = path.suffix.removeprefix(".")
    columns = min(2, len(draws))
    rows = -(-len(draws) // columns)
    with matplotlib.rc_context(fname=_STYLE):
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        cells = figure.subfigures(rows, columns, squeeze=False).ravel()
        lines = 0
        for cell, draw in zip(cells, draws, strict=False):
            axes = cell.subplots()
            draw(axes)
            axes.set_title(textwrap.fill(axes.get_title("left"), 46), loc="left")
            axes.set_ylabel(textwrap.fill(axes.get_ylabel(), 28))
            below = axes.get_xlabel().count("\n") + _add_legend(cell, axes)
            lines = max(lines, below)
        height = rows * (_PLOT_HEIGHT + _TEXT_LINE * lines)
        figure.set_size_inches(columns * COLUMN, height)
        figure.savefig(path, dpi=200, metadata=_UNDATED.get(kind))
    return path


def _add_legend(place: Any, axes: Any) -> int:
    """A legend below a panel of several curves; how many lines it takes."""
    curves, names = axes.get_legend_handles_labels()
    if len(names) < 2:
        return 0
    longest = max(len(name) for name in names)
    beside = max(1, min(len(names), int(COLUMN / (0.5 + 0.055 * longest))))
    place.legend(curves, names, loc="outside lower center", ncols=beside)
    return -(-len(names) // beside)


def log_axis(axes: Any, which: str) -> None:
    """Makes the axis "x" or "y" logarithmic, with labels that do not collide.

    Labels are written as 0.01, since mathtext is off in these figures. What the axis
    shows must be drawn before. Ranges below a factor of 8 get evenly spaced ticks.
    """
    from matplotlib.ticker import (
        LogLocator,
        MaxNLocator,
        NullFormatter,
        StrMethodFormatter,
    )

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    low, high = sorted(axis.get_view_interval())
    subs = (1.0, 2.0, 5.0) if high < 200 * low else (1.0,)
    locator = LogLocator(subs=subs, numticks=7) if high > 8 * low else MaxNLocator(5)
    axis.set_major_locator(locator)
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _plot(axes: Any, plot: Plot) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    for series in plot.series:
        look = series.look.for_matplotlib() | {"label": series.name}
        y = np.array(series.y, float)
        ends = np.array([series.lower, series.upper], float)
        axes.plot(series.x, y, markevery=-(-len(y) // 10), **look)
        if not ends.size:
            continue
        if plot.by_round or not series.look.marker:
            axes.fill_between(series.x, *ends, color=look["color"], alpha=0.12, lw=0)
        else:
            bars = {"fmt": "none", "ecolor": look["color"], "capsize": 2}
            axes.errorbar(series.x, y, np.abs(ends - y), **bars)
    axes.set(title=plot.title, ylabel=plot.y_title)
    axes.set_xlabel(textwrap.fill(plot.x_title, _LINE))
    if plot.by_round:
        locator = MaxNLocator(nbins=6, integer=True, min_n_ticks=1)
        axes.xaxis.set_major_locator(locator)
    for which in plot.log:
        log_axis(axes, which)
    for which in plot.percent:
        axis = getattr(axes, f"{which}axis")
        axis.set_major_formatter(PercentFormatter(xmax=1))
