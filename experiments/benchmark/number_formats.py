"""Compares the accuracy of training in bfloat16 with that in float32, over seeds.

  python -m experiments.benchmark.number_formats --formats_data_dir=FOLDER

FOLDER holds the data sets' standard files, in FOLDER/mnist and FOLDER/femnist. For
every data set and number format it runs FedAvg with --formats_seeds seeds. A sweep that
was stopped goes on when the same command is given again. The accuracies are written to
--formats_results, and `experiments.benchmark.docs_page` makes the table of
docs/performance.md from them.
"""

import json
import pathlib
from typing import Any

import jax
from absl import flags

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.run import sweep

from .. import command, flag_values

flags.DEFINE_string("formats_data_dir", None, "Folder that holds mnist/ and femnist/.")
flags.DEFINE_string(
    "formats_output_dir", "runs/number_formats", "Folder of the sweeps."
)
flags.DEFINE_string(
    "formats_results",
    "docs/results/number_formats.json",
    "File that the summary goes to.",
)
flags.DEFINE_integer(
    "formats_seeds", 5, "Seeds per data set and format.", lower_bound=2
)
flags.DEFINE_list(
    "formats_datasets", ["digits", "mnist", "femnist"], "Data sets, in this order."
)

FORMATS = ("float32", "bfloat16")
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
    """The settings of one sweep.

    Raises:
      ValueError: the data set is not in `TASKS`.
    """
    flag_values.refuse_unknown("formats_datasets", [dataset], TASKS)
    folder = "" if dataset == "digits" else str(pathlib.Path(data_dir) / dataset)
    return resolve(
        ExperimentConfig(
            dataset=dataset,
            data_dir=folder,
            compute_dtype=number_format,
            **TASKS[dataset],
        )
    )


def measure(values: flags.FlagValues) -> None:
    """Runs the sweeps and writes the accuracy of every cell."""
    file = pathlib.Path(values.formats_results)
    rows = []
    for dataset in values.formats_datasets:
        for number_format in FORMATS:
            config = config_of(dataset, number_format, values.formats_data_dir or "")
            folder = (
                pathlib.Path(values.formats_output_dir) / f"{dataset}-{number_format}"
            )
            cells = sweep.sweep(
                config,
                sweep.SweepPlan(("none",), (0.5,), tuple(range(values.formats_seeds))),
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
            file.write_text(
                json.dumps({"jax": jax.__version__, "rows": rows}, indent=1) + "\n"
            )


def main(_: list[str]) -> None:
    """Measures the chosen data sets."""
    values = flags.FLAGS
    if not values.formats_data_dir and set(values.formats_datasets) != {"digits"}:
        raise ValueError(
            "formats_data_dir must name the folder that holds mnist/ and femnist/"
        )
    measure(values)
    command.print_files([values.formats_results])


if __name__ == "__main__":
    command.run(main, __doc__)
