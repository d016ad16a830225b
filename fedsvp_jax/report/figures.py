"""PNG and SVG figures for papers and READMEs, drawn by matplotlib."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedsvp_jax.report import read
from fedsvp_jax.report.compare_page import compare_plots, read_all
from fedsvp_jax.report.plots import Plot, Series
from fedsvp_jax.report.run_plots import run_plots
from fedsvp_jax.report.sweep_plots import sweep_plots

DASHES: tuple[Any, ...] = (
    "solid",
    (0, (4, 2)),
    (0, (1, 1.5)),
    (0, (5, 2, 1, 2)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e6ea",
    "text.parse_math": False,  # a $ in a name does not start a formula
    "svg.hashsalt": "fedsvp_jax",  # equal files for equal results
}


def sweep_png(sweep_dir: str | Path, path: str | Path) -> Path:
    """Draws a sweep as 2×2: accuracy, noise, contribution ratio, cumulative ε.

    Colour shows ε, line style shows the mechanism, FedAvg is black. Cumulative ε is
    that of the first accounting method in the results.

    Args:
      sweep_dir: a sweep's folder.
      path: where to write; its suffix (.png, .svg, .pdf) chooses the format.

    Returns:
      The figure's path.

    Raises:
      ValueError: a file is missing or damaged, or the suffix is unknown.
    """
    return _drawn(sweep_plots(read.read_sweep(sweep_dir).results), path)


def run_png(run_dir: str | Path, path: str | Path) -> Path:
    """Draws a run as 2×2; arguments and errors as for `sweep_png`."""
    return _drawn(run_plots(read.read_run(run_dir)), path)


def compare_png(folders: Sequence[str | Path], path: str | Path) -> Path:
    """Draws several runs and sweeps on the same axes; errors as for `sweep_png`."""
    return _drawn(compare_plots(read_all(folders)), path)


def _drawn(plots: Sequence[Plot], path: str | Path) -> Path:
    """Draws those that say most; ε spent by the first accounting method of a sweep."""
    wanted = ("accuracy", "noise", "ratio", "epsilon", "epsilon_0")
    by_id = {plot.id: plot for plot in plots}
    shown = [by_id[name] for name in wanted if name in by_id]
    return panels(Path(path), [partial(_plot, plot=plot) for plot in shown])


def panels(path: Path, draws: Sequence[Callable[[Any], None]]) -> Path:
    """Draws panels in two columns (or one panel alone) over one shared legend.

    Args:
      path: where to write; its suffix (.png, .svg, .pdf) chooses the format.
      draws: one function per panel; it is called with matplotlib's axes.

    Returns:
      The figure's path.

    Raises:
      ValueError: the suffix is unknown.
    """
    # The object interface, so that no window system or global state is touched.
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    formats = ("png", "svg", "pdf")
    kind = path.suffix.removeprefix(".").lower()
    if kind not in formats:
        raise ValueError(f"path must end in one of .{', .'.join(formats)}, got {path}")
    columns = min(2, len(draws))
    rows = -(-len(draws) // columns)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(5 * columns, 0.6 + 3 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, draw in zip(grid, draws, strict=False):
            draw(axes)
        for axes in grid[len(draws) :]:
            axes.set_visible(False)
        handles: dict[str, Any] = {}
        for axes in grid:
            lines, names = axes.get_legend_handles_labels()
            for name, line in zip(names, lines, strict=True):
                handles.setdefault(name, line)
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=min(5 if columns == 2 else 3, max(1, len(handles))),
            frameon=False,
        )
        figure.savefig(path, dpi=150, metadata=_metadata(kind))
    return path


def plain_ticks(axis: Any) -> None:
    """Writes the numbers of a log axis as 0.01: mathtext is off in these figures."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _plot(axes: Any, plot: Plot) -> None:
    from matplotlib.ticker import LogLocator, PercentFormatter

    for series in plot.series:
        _line(axes, series)
    axes.set_title(plot.title)
    axes.set_xlabel(plot.x_title)
    axes.set_ylabel(plot.y_title)
    if plot.log_y:
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    if plot.percent_y:
        axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))


def _line(axes: Any, series: Series) -> None:
    nan = float("nan")
    y = [nan if value is None else value for value in series.y]
    axes.plot(
        series.x,
        y,
        color=series.color,
        linestyle=DASHES[series.dash % len(DASHES)],
        linewidth=1.6,
        marker="o" if len(series.x) == 1 else None,  # one point makes no line
        label=series.name,
    )
    if series.lower is not None and series.upper is not None:
        lower = [nan if value is None else value for value in series.lower]
        upper = [nan if value is None else value for value in series.upper]
        axes.fill_between(
            series.x, lower, upper, color=series.color, alpha=0.12, linewidth=0
        )


def _metadata(kind: str) -> dict[str, None]:
    """Without dates, so that the same results give the same file."""
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
