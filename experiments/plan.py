"""Says what a table can afford: risk and accuracy by ε, on synthetic rows.

  python -m experiments.plan DATA.csv --schema=schema.toml --total_epsilons=1,3,8

Of DATA.csv only the number of rows of every client is read, which is public in any
case. As many rows are drawn from the schema: numbers uniformly between their bounds,
categories evenly, classes by a random linear model. The route of train --goal is then
trained on them at every ε, and without noise. So the loss by the noise is that of
clients of these sizes and of so many features; the accuracy of your own rows is not
known before a run, and none of it is spent here.

Risk is what ε and δ bound, whatever an adversary knows of all other rows: how often he
is right who guesses, at even odds, whether one row was there, (e^ε + δ)/(1 + e^ε)
(Kairouz, Oh and Viswanath 2015, arXiv 1311.0776); and how many rows he recognises who
accuses 1 % of those that were not there, min(e^ε/100 + δ, 1 - (0.99 - δ)/e^ε).

Exit status: 0 done; 2 a file cannot be read (one line says why).
"""

import dataclasses
import json
import math
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from . import command, flag_values, goal

_SCHEMA = flags.DEFINE_string("schema", None, "The table's schema.", required=True)
_EPSILONS = flags.DEFINE_list(
    "total_epsilons", ["1", "3", "8"], "ε of the whole run, with commas between them."
)
_CLIENTS = flags.DEFINE_integer(
    "num_clients",
    1,
    "Clients where no column names them; the rows are dealt evenly.",
    lower_bound=1,
)
_SEED = flags.DEFINE_integer("seed", 0, "Of the synthetic rows and the training.")
_OUTPUT = flags.DEFINE_string("output", None, "Also write the table as JSON here.")
_DELTA = 1e-5
_TESTED = 2000  # synthetic rows for the test
_SLOPE = 4.0  # of the random linear model: noise-free accuracies are far from 1/2 and 1


def right_of_100(epsilon: float, delta: float = _DELTA) -> float:
    """How many of 100 guesses at even odds are right at most."""
    odds = math.exp(min(epsilon, 700.0))
    return min(100.0, 100 * (odds + delta) / (1 + odds))


def recognised(epsilon: float, delta: float = _DELTA, accused: float = 0.01) -> float:
    """Largest true-positive rate at a false-positive rate `accused`."""
    odds = math.exp(min(epsilon, 700.0))
    return min(odds * accused + delta, 1 - (1 - accused - delta) / odds, 1.0)


def synthetic(schema: Any, sizes: Sequence[int], seed: int) -> Any:
    """A data set of the schema's shape with so many training rows of each client."""
    from fedsvp_jax.data.dataset import Dataset

    rng = np.random.default_rng(seed)
    rows, blocks = sum(sizes) + _TESTED, []
    for column in schema.columns.values():
        if column.type == "category":
            drawn = rng.integers(column.width, size=rows)
            blocks.append(np.eye(column.width, dtype=np.float32)[drawn])
        elif column.width:
            blocks.append(rng.uniform(-1, 1, (rows, 1)).astype(np.float32))
    inputs = np.concatenate(blocks, axis=1)
    logits = inputs @ rng.normal(size=(inputs.shape[1], len(schema.classes)))
    logits = _SLOPE * (logits - logits.mean(0)) / logits.std()
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1).astype(np.int32)
    return Dataset(
        name="synthetic",
        train_inputs=inputs[_TESTED:],
        train_labels=labels[_TESTED:],
        test_inputs=inputs[:_TESTED],
        test_labels=labels[:_TESTED],
        num_classes=len(schema.classes),
        train_writers=np.repeat(np.arange(len(sizes)), sizes).astype(np.int32),
        schema=schema,
    )


def main(arguments: Sequence[str]) -> None:
    """Trains on synthetic rows at every ε, and prints the table."""
    if len(arguments) != 2:
        raise ValueError("name one CSV file")
    epsilons = flag_values.numbers(
        "total_epsilons",
        _EPSILONS.value,
        allowed="positive numbers",
        is_allowed=lambda number: 0 < number < math.inf,
    )
    from fedsvp_jax.data.formats import csv_file
    from fedsvp_jax.data.formats.schema import read_schema
    from fedsvp_jax.report import text_table
    from fedsvp_jax.run.files import replace_file

    schema = read_schema(pathlib.Path(_SCHEMA.value))
    path = pathlib.Path(arguments[1])
    table = csv_file.read_csv(path)
    if schema.client is not None and schema.client not in table:
        raise ValueError(f"{path} lacks the column {schema.client}")
    rows = len(next(iter(table.values())))
    sizes = [len(part) for part in np.array_split(np.arange(rows), _CLIENTS.value)]
    if schema.client is not None:
        sizes = np.unique(table[schema.client], return_counts=True)[1].tolist()
    kept = 1 - (schema.test_fraction or 0.2)
    sizes = [max(2, round(kept * size)) for size in sizes]
    data = synthetic(schema, sizes, _SEED.value)
    bare = _trained(data, None)["test_scores"]
    ended = [_trained(data, epsilon) for epsilon in epsilons]
    found = [
        _row(epsilon, one["test_scores"], bare)
        for epsilon, one in zip(epsilons, ended, strict=True)
    ]
    adversary = ended[0]["adversary"]
    clients = f"{len(sizes)} clients of {min(sizes)} to {max(sizes)} training rows"
    print(
        f"{clients}, synthetic rows of the schema; against: {adversary}, δ = "
        f"{_DELTA:g}; without noise: accuracy {bare['accuracy']:.3f}, guessing "
        f"{bare['guessing']:.3f}\n"
    )
    shown = [{name: command.shown(item) for name, item in row.items()} for row in found]
    print(text_table.aligned(shown))
    if schema.from_records:
        print("\nThe schema was read off the records: a run on it is nominal.")
    if _OUTPUT.value:
        told = {
            "data": "synthetic rows of the schema",
            "clients": sizes,
            "adversary": adversary,
            "delta": _DELTA,
            "noise_free": bare,
            "rows": found,
        }
        content = json.dumps(told, indent=2, ensure_ascii=False)
        replace_file(pathlib.Path(_OUTPUT.value), content.encode())


def _row(epsilon: float, scores: dict[str, Any], bare: dict[str, Any]) -> Any:
    won = bare["accuracy"] - bare["guessing"]
    part = (scores["accuracy"] - bare["guessing"]) / won if won > 0 else math.nan
    return {
        "ε of the run": epsilon,
        "guesses right, of 100, at most": round(right_of_100(epsilon), 1),
        "recognised at 1 % false, at most": round(recognised(epsilon), 3),
        "accuracy": round(scores["accuracy"], 3),
        "left of the gain over guessing, %": round(100 * part),
    }


def _trained(data: Any, epsilon: float | None) -> dict[str, Any]:
    """The summary of the route on the data; of FedAvg without noise for None."""
    from fedsvp_jax import run
    from fedsvp_jax.config import ExperimentConfig, resolve

    given = ExperimentConfig(dataset="csv", seed=_SEED.value)
    told = goal.route_settings(given, data)
    given = dataclasses.replace(given, **told, total_epsilon=epsilon)
    config = resolve(given, data)
    if epsilon is None:
        config = resolve(ExperimentConfig(**goal.reference(config)), data)
    with tempfile.TemporaryDirectory() as folder:
        return run.train(config, pathlib.Path(folder) / "run", dataset=data)


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
