"""Experiment A: is protection guided by the value of data worth anything?

  python -m experiments.data_value --data_dir=$FEDSVP_DATA
  python -m experiments.data_value --norun

docs/data_value.md registers what is computed and what counts as yes and as no. A row is
a federation under all arms and noises, a line of docs/results/data_value/NAME_N.jsonl.
Rows that are there are not computed again, so the command goes on where it was stopped.
With --norun it writes the measured parts of the page from the rows.
"""

import pathlib
import time

from absl import flags

from fedsvp_jax.data import sources

from .. import command, kept_rows, provenance
from . import cell, docs_page
from .registered import DATASETS, FEDERATIONS

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def compute_missing(results: pathlib.Path, data_dir: pathlib.Path) -> None:
    """Adds the rows that are missing, one federation of each data set in turn."""
    data = {name: sources.load(name, data_dir / name) for name in DATASETS}
    rows = docs_page.rows_of(results)
    done = {name: {row["seed"] for row in rows[name]} for name in DATASETS}
    for seed in range(FEDERATIONS):
        for name in DATASETS:
            if seed in done[name]:
                continue
            start = time.process_time()
            row = cell.compute(data[name], seed)
            cost = round(time.process_time() - start, 1)
            stamp = provenance.stamp(data[name], seed)
            whole = {"seed": seed, "cpu_s": cost, **row, "provenance": stamp}
            kept_rows.add(results / f"{name}_{seed // 100}.jsonl", whole)
            print(f"{name}, federation {seed}: {cost} CPU s", flush=True)


def main(_: list[str]) -> None:
    """Computes the rows that are missing, or writes the page."""
    values = flags.FLAGS
    docs = pathlib.Path(values.docs_dir)
    if not values.run:
        print(docs_page.rewrite(docs))
        return
    if values.data_dir is None:
        raise ValueError("data_dir must be given, unless --norun is")
    command.start_jax(values)
    compute_missing(docs / "results" / "data_value", pathlib.Path(values.data_dir))


def define_flags() -> None:
    """The flags, not at import: other commands have flags of the same names."""
    command.define_output(required=False)
    flags.DEFINE_string("data_dir", None, "Folder of the folders mnist and adult.")
    flags.DEFINE_string("docs_dir", str(DOCS), "Folder of data_value.md, results/.")
    flags.DEFINE_bool("run", True, "Compute missing rows; --norun writes the page.")


if __name__ == "__main__":
    define_flags()
    command.run(main, __doc__)
