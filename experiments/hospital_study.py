"""The arms of experiments/studies/hospitals once more, with noise in whole numbers.

  python -m experiments.hospital_study medpar.csv --schema=medpar.toml --seeds=0:20

Registered before the first row: the goal now draws whole numbers wherever a step takes
all rows of a client. With h = 18 of 54 the criterion of the study holds if the 95 %
interval of the paired difference of AUC, whole_third - central, lies above -.01 at
epsilon 3, over 20 seeds of split and noise. Splits are those of all_rows.jsonl.
"""

import json
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from . import command

_SCHEMA = flags.DEFINE_string("schema", None, "The confirmed schema.")
_SEEDS = flags.DEFINE_string("seeds", "0:20", "FIRST:END.")
_TOTAL = flags.DEFINE_float("total_epsilon", 3.0, "ε of every private arm.")
_TO = flags.DEFINE_string("to", "rows.jsonl", "Rows are added to this file.")


def split_table(path: pathlib.Path, client: str | None, seed: int) -> Any:
    """The table with a column `split`, drawn by the seed as `train` draws it."""
    from fedsvp_jax.data.tables import cells, table, table_file

    columns, _ = table_file.read_table(path)
    rows = len(next(iter(columns.values())))
    clients = np.zeros(rows, int)
    if client is not None:
        clients = cells.distinct(columns[client])[1]
    order = np.random.default_rng(seed).permutation(rows)
    is_test = table._draw_rows(order, round(0.2 * rows), clients)
    return {name: column.to_pylist() for name, column in columns.items() if name} | {
        "split": np.where(is_test, "test", "train").tolist()
    }


def proposed(data: Any, trust: str, seed: int) -> np.ndarray:
    """(n,) the chance of the second class by what --goal=proved proposes."""
    from fedsvp_jax import run
    from fedsvp_jax.config import ExperimentConfig, resolve

    from . import goal

    sizes = goal.training_sizes(data, 1, True)
    asked: dict[str, Any] = {
        "colluders": goal.default_colluders(len(sizes)),
        "noise_sampler": goal.noise_sampler(data, sizes),
        "dataset": "csv",
        "total_epsilon": _TOTAL.value,
        "noise_trust": trust,
        "seed": seed,
    }
    settings = goal.route_settings(ExperimentConfig(**asked), data)
    config = resolve(ExperimentConfig(**(settings | asked)), dataset=data)
    with tempfile.TemporaryDirectory() as folder:
        run.train(
            config,
            folder,
            dataset=data,
            options=run.Options(progress=False),
        )
        summary = json.loads((pathlib.Path(folder) / "summary.json").read_text())
        chances = run.load_model(folder).probabilities(data.test_inputs)[:, 1]
    status, spent = summary["status"]["rdp"], summary["epsilon_spent"]["rdp"]
    if status != "proved" or spent > 1.000001 * _TOTAL.value:
        raise AssertionError(f"{status}, epsilon {spent}")
    return chances


def main(arguments: Sequence[str]) -> None:
    """Adds a row for each seed."""
    from fedsvp_jax.data.tables import scores
    from fedsvp_jax.data.tables.schema import read_schema
    from fedsvp_jax.data.tables.table import from_table

    from . import provenance

    command.start_jax()
    path = pathlib.Path(arguments[1])
    schema = read_schema(pathlib.Path(_SCHEMA.value))
    first, end = map(int, _SEEDS.value.split(":"))
    for seed in range(first, end):
        data = from_table(
            split_table(path, schema.client, seed), schema=schema, name=path.stem
        )
        trusts: dict[str, str] = {"whole_server": "nobody"}
        if schema.client is not None:
            trusts |= {"whole_third": "secure_aggregation"}
        chances = {arm: proposed(data, trust, seed) for arm, trust in trusts.items()}
        row: dict[str, Any] = {
            "table": path.stem,
            "epsilon": _TOTAL.value,
            "arms": {},
        }
        for arm, chance in chances.items():
            both = np.stack([1 - chance, chance], 1)
            each = scores.of_table(both, np.asarray(data.test_labels), None)
            names = ("auc", "accuracy", "log_loss", "guessing")
            row["arms"][arm] = {name: each[name] for name in names}
        row["provenance"] = provenance.stamp(data, seed)
        with pathlib.Path(_TO.value).open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(seed, {arm: round(v["auc"], 3) for arm, v in row["arms"].items()})


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
