"""Rebuild report pages from the files of runs, sweeps, attacks and influence.

  python -m experiments.report DIR [DIR …]

DIR is the --output_dir of an experiment. Each folder gets report.html; a sweep's gets
table.md and table.csv too, and its table is printed. Several folders of runs and sweeps
are compared as well: compare.html, in the folder that they have in common or in
--compare_to. With --figure, a figure is drawn beside each page for papers and slides.
"""

import datetime
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from fedsvp_jax import report
from fedsvp_jax.report import read, tables

_FIGURE = flags.DEFINE_enum(
    "figure",
    None,
    ["png", "svg", "pdf"],
    "Also draw report.<figure> and compare.<figure> in this format.",
)
_COMPARE_TO = flags.DEFINE_string(
    "compare_to", None, "Folder for compare.html, when several DIRs are named."
)
_TIMESTAMP = flags.DEFINE_bool(
    "timestamp",
    False,
    "Write the time at the page's foot (pages are then no longer byte-identical).",
)


def rebuild(
    folder: Path, *, figure: str | None, timestamp: str | None
) -> tuple[list[Path], str]:
    """Writes one folder's pages; returns their paths and text for the terminal.

    Raises:
      ValueError: a file is missing or damaged.
      ImportError: plotly is not installed.
    """
    target = folder / f"report.{figure}"
    if read.is_sweep(folder):
        paths = [
            report.write_sweep_report(folder, timestamp=timestamp),
            *tables.write_tables(folder),
        ]
        if figure:
            paths.append(report.figures.sweep_png(folder, target))
        rows = tables.summarize(read.read_sweep(folder).results)
        return paths, tables.format_table(rows)
    if read.is_run(folder):
        paths = [report.write_run_report(folder, timestamp=timestamp)]
        if figure:
            paths.append(report.figures.run_png(folder, target))
        return paths, ""
    return [report.write_figures_report(folder, timestamp=timestamp)], ""


def compare(
    folders: list[Path],
    output_dir: Path,
    *,
    figure: str | None,
    timestamp: str | None,
) -> list[Path]:
    """Writes the comparison of folders of runs and sweeps; errors as `rebuild`."""
    paths = [report.write_compare_report(folders, output_dir, timestamp=timestamp)]
    if figure:
        target = output_dir / f"compare.{figure}"
        paths.append(report.figures.compare_png(folders, target))
    return paths


def main(argv: Sequence[str]) -> None:
    """Rebuilds every folder that the command names."""
    folders = [Path(word) for word in argv[1:]]
    if not folders:
        sys.exit("experiments.report: name at least one folder of a run or a sweep")
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    timestamp = now if _TIMESTAMP.value else None
    figure = _FIGURE.value
    try:
        for folder in folders:
            paths, text = rebuild(folder, figure=figure, timestamp=timestamp)
            print(text + "\n".join(map(str, paths)))
        curves = [f for f in folders if read.is_run(f) or read.is_sweep(f)]
        if len({os.path.abspath(folder) for folder in curves}) > 1:
            common = os.path.commonpath([os.path.abspath(f.parent) for f in curves])
            place = Path(_COMPARE_TO.value or common)
            paths = compare(curves, place, figure=figure, timestamp=timestamp)
            print("\n".join(map(str, paths)))
    except (ValueError, ImportError, OSError) as error:
        sys.exit(f"experiments.report: {error}")


if __name__ == "__main__":
    app.run(main)
