"""Compares the accuracy of training in bfloat16 with that in float32, over seeds.

  python -m experiments.benchmark.number_formats --formats_data_dir=FOLDER

FOLDER holds the data sets' standard files, in FOLDER/mnist and FOLDER/femnist. For
every data set and number format it runs FedAvg with five seeds, in runs/number_formats.
A sweep that was stopped goes on when the same command is given again. The accuracies
are written to docs/results/number_formats.json, and `experiments.benchmark.docs_page`
makes the table of docs/results/performance.md from them.
"""

import itertools
import json
import pathlib
from typing import Any

import jax
from absl import flags

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.run import sweep

from .. import command

RESULTS = pathlib.Path("docs/results/number_formats.json")
SWEEPS = pathlib.Path("runs/number_formats")
FORMATS = ("float32", "bfloat16")
SEEDS = 5
# Settings by data set: long enough for FedAvg to be good, with models that a CPU trains
# in minutes.
TASKS: dict[str, dict[str, Any]] = {
    "digits": {"model": "small_cnn", "num_rounds": 60},
    "mnist": {"model": "mlp", "num_rounds": 30, "num_clients": 100},
    "femnist": {
        "model": "mlp",
        "num_rounds": 60,
        "num_clients": 100,
        "partition": "by_writer",
    },
}


def config_of(dataset: str, number_format: str, data_dir: str) -> ExperimentConfig:
    """The settings of one sweep."""
    folder = "" if dataset == "digits" else str(pathlib.Path(data_dir) / dataset)
    return resolve(
        ExperimentConfig(
            dataset=dataset,
            data_dir=folder,
            compute_dtype=number_format,
            **TASKS[dataset],
        )
    )


def measure(data_dir: str, file: pathlib.Path, sweeps: pathlib.Path) -> None:
    """Runs the sweeps, in folders of `sweeps`, and writes the accuracy of each cell."""
    rows = []
    for dataset, number_format in itertools.product(TASKS, FORMATS):
        config = config_of(dataset, number_format, data_dir)
        folder = sweeps / f"{dataset}-{number_format}"
        cells = sweep.sweep(
            config,
            sweep.SweepPlan(("none",), (0.5,), tuple(range(SEEDS))),
            folder,
            resume=folder.exists(),
            progress=True,
        )
        rows.append(
            {
                "dataset": dataset,
                "model": config.model,
                "compute_dtype": number_format,
                "rounds": config.num_rounds,
                "accuracies": [cell["final_accuracy"] for cell in cells],
            }
        )
        text = json.dumps({"jax": jax.__version__, "rows": rows}, indent=1)
        file.write_text(text + "\n")


def main(_: list[str]) -> None:
    """Measures every data set."""
    measure(flags.FLAGS.formats_data_dir, RESULTS, SWEEPS)
    command.print_files([RESULTS])


if __name__ == "__main__":
    flags.DEFINE_string(
        "formats_data_dir", None, "Folder of mnist/ and femnist/.", required=True
    )
    command.run(main, __doc__)
