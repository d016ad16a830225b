"""Rebuild report pages from the files of runs and sweeps.

  python -m experiments.report DIR [DIR …]

DIR is the --output_dir of experiments.train or experiments.sweep. Each folder gets
report.html; a sweep's gets table.md and table.csv too, and its table is printed.
With --figure, a figure is drawn beside the page for papers and slides.
"""

import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from fedsvp_jax import report
from fedsvp_jax.report import read, tables

_FIGURE = flags.DEFINE_enum(
    "figure", None, ["png", "svg", "pdf"], "Also draw report.<figure> in this format."
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
    if not read.is_sweep(folder):
        paths = [report.write_run_report(folder, timestamp=timestamp)]
        if figure:
            target = folder / f"report.{figure}"
            paths.append(report.figures.run_png(folder, target))
        return paths, ""
    paths = [
        report.write_sweep_report(folder, timestamp=timestamp),
        *tables.write_tables(folder),
    ]
    if figure:
        target = folder / f"report.{figure}"
        paths.append(report.figures.sweep_png(folder, target))
    rows = tables.summarize(read.read_sweep(folder).results)
    return paths, tables.format_table(rows)


def main(argv: Sequence[str]) -> None:
    """Rebuilds every folder that the command names."""
    if len(argv) < 2:
        sys.exit("experiments.report: name at least one folder of a run or a sweep")
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    for folder in argv[1:]:
        try:
            paths, text = rebuild(
                Path(folder),
                figure=_FIGURE.value,
                timestamp=now if _TIMESTAMP.value else None,
            )
        except (ValueError, ImportError, OSError) as error:
            sys.exit(f"experiments.report: {error}")
        print(text + "\n".join(map(str, paths)))


if __name__ == "__main__":
    app.run(main)
