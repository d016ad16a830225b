"""Linear heads on features of images, without noise and with a proved ε.

  python -m experiments.features --part=mnist --data_dir=$FEDSVP_DATA/mnist \\
      --output_dir=runs/features

A cell is a data set, a model (scatter_linear or lite0_linear), a number of clients and
an ε of the whole run. Every seed of it is a run of its own, whose folder lies in
--output_dir, and a row of docs/results/features/PART.jsonl. Rows that are there are not
computed again, so the command goes on where it was stopped. docs/results/features.md
shows the rows: `python -m experiments.features.docs_page`.
"""

import pathlib

from absl import flags

from fedsvp_jax import run

from .. import command, kept_rows, provenance
from .cells import CELLS, config_of, row_of

command.define_output()
flags.DEFINE_enum(
    "part", None, sorted({cell.part for cell in CELLS}), "Data set.", required=True
)
flags.DEFINE_list("names", None, "Cells to compute, by name. Default: all of the part.")
flags.DEFINE_string("data_dir", None, "Folder with the standard files of the data set.")
flags.DEFINE_string("features_dir", None, "As experiments.train has it.")
flags.DEFINE_string("lite0_weights", None, "As experiments.train has it.")
flags.DEFINE_string(
    "results_dir", "docs/results/features", "Folder of the rows that are kept."
)


def main(_: list[str]) -> None:
    """Computes the rows that are missing."""
    values = flags.FLAGS
    command.start_jax(values)
    file = pathlib.Path(values.results_dir) / f"{values.part}.jsonl"
    done = {(row["name"], row["seed"]) for row in kept_rows.read(file)}
    names = values.names or [cell.name for cell in CELLS]
    chosen = [
        (seed, cell)
        for cell in CELLS
        if cell.part == values.part and cell.name in names
        for seed in range(cell.seeds)
    ]
    for seed, cell in sorted(chosen, key=lambda one: one[0]):
        if (cell.name, seed) in done:
            continue
        given = {"data_dir": values.data_dir, "features_dir": values.features_dir}
        if cell.model == "lite0_linear":
            given["lite0_weights"] = values.lite0_weights
        config = config_of(cell, seed, **given)
        folder = pathlib.Path(values.output_dir) / f"{cell.name}_{seed}"
        row = row_of(cell, seed, run.train(config, folder, resume=True))
        kept_rows.add(file, row | {"provenance": provenance.stamp_of_run(config)})
        print(f"{cell.name} seed {seed}: {row['accuracy']:.4f}", flush=True)


if __name__ == "__main__":
    command.run(main, __doc__)
