"""Rebuilds report pages from the files of runs and sweeps.

  fedsvp report DIR [DIR …]

DIR is the --output_dir of a run or a sweep, and gets report.html. That of a sweep also
gets table.md, .tex and .csv, and its table is printed. If several folders are named,
they are compared in compare.html, which is written to their common parent folder or to
--compare_to, and in a table, which is printed.
DIR may be a model file, such as a federation's model.safetensors: then its odds ratios
go into coefficients.csv beside it. They describe the model, and are no estimates of
effects: clipping and few rounds draw them towards 1, and noise moves them.
--plugin=FILE.py is what a run with a mechanism from outside was started with.
The camera above a plot of a page saves it as SVG; the button below, its numbers as CSV.

Exit status: 0 done; 2 a folder is missing or damaged (one line says why).
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from fedsvp_jax import report
from fedsvp_jax.report import read
from fedsvp_jax.run import plugin

from . import command, messages, printed

command.define("report")
_PLUGIN = flags.DEFINE_string("plugin", None, plugin.HELP)


def rebuild(folder: Path) -> list[Path]:
    """Writes the pages of one folder, or odds ratios; prints the table of a sweep.

    Returns:
      The paths of what was written.

    Raises:
      ValueError: a file is missing or damaged, or plotly is not installed.
    """
    if folder.is_file():
        print(messages.filled("odds_ratios.txt"))
        return [report.write_coefficients(folder)]
    files = read.read_folder(folder)
    if file := plugin.missing(files.config):
        print(
            f"note: {folder} was made with --plugin={file}; name it for a page that "
            "has the command and the mechanism's own settings",
            file=sys.stderr,
        )
    if isinstance(files, read.RunFiles):
        return [report.write_run_report(folder)]
    printed.sweep_tables(folder)
    tables = (folder / f"table.{kind}" for kind in ("md", "tex", "csv"))
    return [report.write_sweep_report(folder), *tables]


def main(arguments: Sequence[str]) -> None:
    """Rebuilds the pages of every folder on the command line."""
    folders = [*map(Path, arguments[1:])]
    if not folders:
        raise ValueError("name at least one folder of a run or a sweep")
    if _PLUGIN.value:
        plugin.load(_PLUGIN.value)
    for folder in folders:
        print(*rebuild(folder), sep="\n")
    paths = {os.path.abspath(folder) for folder in folders}
    if len(paths) > 1:
        parents = [*map(os.path.dirname, paths)]
        target = Path(flags.FLAGS.compare_to or os.path.commonpath(parents))
        page = report.write_compare_report(folders, target)
        print(messages.filled("compare.txt", files=read.read_all(folders)))
        print(page)


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
