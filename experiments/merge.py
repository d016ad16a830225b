"""Joins the parts of a sweep, which ran apart, to one sweep.

  fedsvp merge runs/parts/* --output_dir=runs/all

Each folder is the --output_dir of `fedsvp sweep` with the same flags and
--part=1/N to --part=N/N. All parts must be there, finished and with their checkpoints,
by which rows are refused that someone edited.

Written to --output_dir: config.json, results.jsonl and cells.json, with the bytes of
the sweep in one process, checkpoints/, report.html, and table.md, .tex and .csv. The
folder is new, or that of the same merge, which is written anew unless the sweep has
grown since: `fedsvp sweep --resume`, without --part, adds cells to it.

Exit status: 0 done; 2 a part is missing, unfinished, edited or of another sweep (one
line says why).
"""

from collections.abc import Sequence

from absl import flags

from . import command, printed

command.define("merge")


def main(arguments: Sequence[str]) -> None:
    """Joins the folders on the command line."""
    from fedsvp_jax.run import parts

    values = flags.FLAGS
    parts.merge(arguments[1:], values.output_dir)
    printed.sweep_tables(values.output_dir)
    command.write_report(values)
    command.print_folder(values.output_dir)


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
