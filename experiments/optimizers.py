"""FedAvg beside FedAvgM, FedAdam, FedYogi and FedProx on FEMNIST, each client a writer.

  python -m experiments.optimizers --data_dir=$FEDSVP_DATA/femnist \\
      --output_dir=runs/optimizers

Every method takes the settings of `--preset=NAME` of experiments.train, with the same
writers, cohorts, rounds and first model. A run is a folder in --output_dir and a row of
docs/results/optimizers.jsonl; rows that are there are not computed again. Then the
table of docs/optimizers.md is written; --norun does that alone.
"""

import pathlib
from typing import Any

from absl import flags

from fedsvp_jax import run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.optimizers import METHODS
from fedsvp_jax.report.text_table import markdown

from . import command, docs_blocks, kept_rows, provenance

RESULTS = "optimizers.jsonl"
NAMES = {
    "fedavg": "FedAvg",
    "fedavgm": "FedAvgM",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "fedprox": "FedProx",
}
SETTINGS: dict[str, Any] = {
    "dataset": "femnist",
    "mechanism": "none",
    "num_clients": 100,
    "cohort_size": 10,
    "num_hbc_clients": 0,
    "num_attributes": 1,
    "num_rounds": 30,
    "eval_every": 5,
}


def config_of(method: str, seed: int, **more: Any) -> ExperimentConfig:
    """The settings of one run."""
    return resolve(ExperimentConfig(**SETTINGS | METHODS[method] | more, seed=seed))


def row_of(method: str, seed: int, accuracies: dict[int, float]) -> dict[str, Any]:
    """What is kept of a run: the accuracy by round in which the model was tested."""
    return {"method": method, "seed": seed, "settings": SETTINGS} | {
        "accuracy": {str(number): value for number, value in accuracies.items()}
    }


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each method: accuracy after some rounds, mean over the seeds."""
    lines = []
    for method, name in NAMES.items():
        found = [row["accuracy"] for row in rows if row["method"] == method]
        if not found:
            continue
        told = ", ".join(f"`--{key}={value}`" for key, value in METHODS[method].items())
        line = {"method": name, "settings": told or "the defaults"}
        for number in found[0]:
            line[f"round {number}, %"] = docs_blocks.mean_and_range(
                [accuracy[number] for accuracy in found]
            )
        line["runs"] = str(len(found))
        lines.append(line)
    return markdown(lines)


def _rounds(folder: pathlib.Path) -> dict[int, float]:
    return {
        row["round"]: row["test_accuracy"]
        for row in kept_rows.read(folder / "metrics.jsonl")
        if row["test_accuracy"] is not None and row["round"] % 10 == 0
    }


def compute(
    file: pathlib.Path, *, seeds: int, data_dir: str | None, output_dir: pathlib.Path
) -> None:
    """Computes the rows that are missing in `file`."""
    done = {(row["method"], row["seed"]) for row in kept_rows.read(file)}
    for seed in range(seeds):
        for method in NAMES:
            if (method, seed) in done:
                continue
            folder = output_dir / f"{method}_{seed}"
            config = config_of(method, seed, data_dir=data_dir)
            run.train(config, folder, resume=True)
            row = row_of(method, seed, _rounds(folder))
            kept_rows.add(file, row | {"provenance": provenance.stamp_of_run(config)})
            print(f"{method} seed {seed}: {row['accuracy']}", flush=True)


def write_page(docs: pathlib.Path) -> pathlib.Path:
    """Writes the table from the rows."""
    block = docs_blocks.made_from(docs / "results" / RESULTS, table)
    return docs_blocks.rewrite(docs / "optimizers.md", {"methods": block})


def measure(values: flags.FlagValues) -> None:
    """Computes the rows that are missing."""
    command.start_jax(values)
    compute(
        docs_blocks.DOCS / "results" / RESULTS,
        seeds=values.seeds,
        data_dir=values.data_dir,
        output_dir=pathlib.Path(values.output_dir),
    )


if __name__ == "__main__":
    command.define_output(required=False)
    flags.DEFINE_string("data_dir", None, "Folder of FEMNIST in LEAF's format.")
    flags.DEFINE_integer("seeds", 1, "Runs of each method.", lower_bound=1)
    docs_blocks.run_study(measure, write_page, __doc__, needs=["output_dir"])
