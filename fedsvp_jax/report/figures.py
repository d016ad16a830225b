"""Figures for papers, drawn by matplotlib: SVG or PDF at a column's width, or PNG.

Everything that draws axes goes through `panels` and `curve`, so that fonts, widths,
ticks and the looks of `style` are the same in every figure of the package.
"""

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.core import extras
from fedsvp_jax.report import read
from fedsvp_jax.report.compare_page import compare_plots, read_all
from fedsvp_jax.report.plots import Numbers, Plot, Series
from fedsvp_jax.report.run_plots import run_plots
from fedsvp_jax.report.style import Look
from fedsvp_jax.report.sweep_plots import sweep_plots

COLUMN, DOUBLE = 3.3, 7.0  # inches: one column of a two-column paper, and both
FORMATS = ("svg", "pdf", "png")
_PLOT_HEIGHT = 2.05  # inches, with title and axis labels, without the legend
_LEGEND_LINE = 0.145  # inches
_LINE = 32  # characters of an axis' title
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # equal files, too
_OVERVIEW = ("accuracy_epsilon", "accuracy", "noise", "ratio", "epsilon", "epsilon_0")
_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.handlelength": 3.2,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "lines.markeredgewidth": 0.4,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,  # grid lines behind markers
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.5,
    "text.parse_math": False,  # a $ in a name does not start a formula
    "svg.hashsalt": "fedsvp_jax",  # equal files for equal results
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
}


def draw_sweep(sweep_dir: str | Path, path: str | Path) -> Path:
    """Draws a sweep: accuracy against ε, then accuracy, noise and R by round.

    Colour, marker and dashes show the mechanism, the colour's shade shows ε.

    Args:
      sweep_dir: a sweep's folder.
      path: where to write; its suffix (.svg, .pdf, .png) chooses the format.

    Returns:
      The figure's path.

    Raises:
      ValueError: a file is missing or damaged, or the suffix is unknown.
    """
    return _overview(sweep_plots(read.read_sweep(sweep_dir).results), path)


def draw_run(run_dir: str | Path, path: str | Path) -> Path:
    """Draws a run: accuracy, noise, R and ε by round; errors as for `draw_sweep`."""
    return _overview(run_plots(read.read_run(run_dir)), path)


def draw_comparison(folders: Sequence[str | Path], path: str | Path) -> Path:
    """Draws several runs and sweeps on the same axes; errors as for `draw_sweep`."""
    return _overview(compare_plots(read_all(folders)), path)


def draw_each(folder: str | Path, kind: str) -> list[Path]:
    """Draws every plot of a run or sweep by itself, one column wide.

    Args:
      folder: of a run or a sweep; the figures go to its folder `figures`.
      kind: svg, pdf or png.

    Returns:
      The paths FOLDER/figures/PLOT.KIND.

    Raises:
      ValueError: a file is missing or damaged, or the format is unknown.
    """
    if read.is_sweep(folder):
        plots = sweep_plots(read.read_sweep(folder).results)
    else:
        plots = run_plots(read.read_run(folder))
    place = Path(folder) / "figures"
    place.mkdir(exist_ok=True)
    return [
        panels(place / f"{plot.id}.{kind}", [partial(_plot, plot=plot)])
        for plot in plots
    ]


def _overview(plots: Sequence[Plot], path: str | Path) -> Path:
    """Draws the first four of `_OVERVIEW` that there are."""
    by_id = {plot.id: plot for plot in plots}
    selected = [by_id[name] for name in _OVERVIEW if name in by_id][:4]
    return panels(Path(path), [partial(_plot, plot=plot) for plot in selected])


def panels(
    path: Path,
    draws: Sequence[Callable[[Any], None]],
    *,
    plot_height: float = _PLOT_HEIGHT,
    wide: bool = False,
) -> Path:
    """Draws one panel at a column's width, or several in two columns.

    Each panel has its own legend below it; one that all share stands below them all.

    Args:
      path: where to write; its suffix (.svg, .pdf, .png) chooses the format.
      draws: one function per panel; it is called with matplotlib's axes.
      plot_height: of a panel without its legend, in inches.
      wide: each panel is as wide as both columns.

    Returns:
      The figure's path.

    Raises:
      ValueError: the suffix is unknown.
    """
    # The object interface, so that no window system or global state is touched.
    with extras.needed("report", "a figure"):
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise ValueError(f"path must end in one of .{', .'.join(FORMATS)}, got {path}")
    columns = 1 if wide else min(2, len(draws))
    rows = -(-len(draws) // columns)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        cells = figure.subfigures(rows, columns, squeeze=False).ravel()
        panel_axes = []
        for cell, draw in zip(cells, draws, strict=False):
            axes = cell.subplots()
            draw(axes)
            axes.set_title(_wrap(axes.get_title("left"), 46), loc="left")
            axes.set_ylabel(_wrap(axes.get_ylabel(), 28))
            panel_axes.append((cell, axes))
        width = DOUBLE if wide or columns == 2 else COLUMN
        names = [axes.get_legend_handles_labels()[1] for _, axes in panel_axes]
        if len(names) > 1 and all(legend == names[0] for legend in names):
            below = _LEGEND_LINE * _add_legend(figure, panel_axes[0][1], width)
        else:
            share = width / columns
            below = (
                rows
                * _LEGEND_LINE
                * max(_add_legend(cell, axes, share) for cell, axes in panel_axes)
            )
        figure.set_size_inches(width, rows * plot_height + below)
        figure.savefig(path, dpi=200, metadata=_UNDATED.get(kind))
    return path


def _wrap(text: str, width: int) -> str:
    return "\n".join(textwrap.fill(line, width) for line in text.split("\n"))


def _add_legend(place: Any, axes: Any, width: float) -> int:
    """A legend below a panel, or all, with several curves; how many lines it takes."""
    curves, names = axes.get_legend_handles_labels()
    if len(names) < 2:
        return 0
    longest = max(len(name) for name in names)
    beside = max(1, min(len(names), int(width / (0.5 + 0.055 * longest))))
    place.legend(curves, names, loc="outside lower center", ncols=beside)
    return -(-len(names) // beside)


def curve(
    axes: Any,
    x: Numbers,
    y: Numbers,
    look: Look,
    *,
    label: str | None = None,
    margins: tuple[Numbers, Numbers] | None = None,
    nudge: float = 0.0,
) -> None:
    """Draws one curve, with a marker at every point of a short curve.

    Args:
      axes: matplotlib's.
      x: place of each point.
      y: value of each point; None is a gap.
      look: the curve's colour, marker and dashes.
      label: the name in the legend; None leaves it out.
      margins: how far each interval reaches below and above its point.
      nudge: how far the curve is drawn to the right of x, in typographic points, so
        that intervals at the same x do not cover one another.
    """
    heights = _heights(y)
    arguments = look.for_matplotlib() | {"label": label}
    if len(x) > 12:
        arguments["markevery"] = (sum(map(ord, label or "")) % 10 / 100, 0.1)
    if margins is None:
        axes.plot(x, heights, **arguments)
        return
    from matplotlib.transforms import ScaledTranslation

    scale = axes.get_figure(root=True).dpi_scale_trans
    shifted = axes.transData + ScaledTranslation(nudge / 72, 0, scale)
    error = [_heights(side) for side in margins]
    line = axes.errorbar(x, heights, error, capsize=2, elinewidth=0.8, **arguments)
    for part in (line[0], *line[1], *line[2]):
        part.set_transform(shifted)


def round_axis(axes: Any) -> None:
    """Whole numbers only on an x axis of rounds."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


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
    if high < 8 * low:
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    else:
        subs = (1.0, 2.0, 5.0) if high < 200 * low else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs, numticks=7))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _plot(axes: Any, plot: Plot) -> None:
    from matplotlib.ticker import PercentFormatter

    with_bars = [series for series in plot.series if series.marks]
    for series in plot.series:
        if series.marks:
            place = with_bars.index(series) - (len(with_bars) - 1) / 2
            _with_bars(axes, series, nudge=2 * place)
        else:
            _with_band(axes, series, level=bool(with_bars))
    axes.set_title(plot.title)
    axes.set_xlabel(textwrap.fill(plot.x_title, _LINE))
    axes.set_ylabel(plot.y_title)
    if plot.counts_rounds:
        round_axis(axes)
    for which, is_log in (("x", plot.log_x), ("y", plot.log_y)):
        if is_log:
            log_axis(axes, which)
    if plot.percent_y:
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))


def _with_bars(axes: Any, series: Series, nudge: float) -> None:
    def reach(edge: Numbers | None) -> list[float]:
        edges = _heights(edge or [None] * len(series.y))
        return list(np.abs(edges - _heights(series.y)))

    margins = reach(series.lower), reach(series.upper)
    name, look = series.name, series.look
    curve(axes, series.x, series.y, look, label=name, margins=margins, nudge=nudge)


def _with_band(axes: Any, series: Series, *, level: bool) -> None:
    """A curve with its band; a level, which belongs to no x, has no markers."""
    curve(axes, series.x, series.y, series.look, label=series.name)
    if level:
        axes.lines[-1].set_marker("")
    if series.lower is not None and series.upper is not None:
        lower, upper = _heights(series.lower), _heights(series.upper)
        axes.fill_between(
            series.x, lower, upper, color=series.look.color, alpha=0.12, linewidth=0
        )


def _heights(values: Numbers) -> np.ndarray:
    """NaN, which matplotlib leaves out, for None."""
    return np.asarray(values, float)
