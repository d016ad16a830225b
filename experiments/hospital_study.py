"""Is `--goal=proved` as useful on small hospitals as a central DP model?

  python -m experiments.hospital_study flchain.csv --schema=flchain.toml --seeds=0:5

Registered before the first row of the tables below:

- Tables of scikit-survival: flchain (7,874 people, died or not; without futime and
  chapter, which tell the outcome), dealt at random to twelve hospitals in unequal shares
  (seed 2026); whas500 (500 people, died or not, without lenfol) and gbsg2 (686, a
  relapse or not, without time), one client each. Bounds and shares were written from
  what is known of the quantities, not from the records.
- Arms, splits, ε = 3 and δ as before: `secure` and `server`, what --goal=proved
  proposes; `logistic` and `boosting`, scikit-learn's, which hide nothing; `central`,
  DP-SGD by one server that holds all rows, untuned. Five seeds of split and noise.
- Criterion of flchain: as useful as the central model if the 95 % t interval of the
  paired difference of AUC, secure - central, lies above -.01. Of the two small tables
  the rows are shown, whatever they are; no rule of the goal is changed after them.
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
_DELTA = 1e-5


def central_noise(steps: int, rate: float) -> float:
    """z of DP-SGD on Poisson batches, by dp_accounting's PLD, rows added or removed."""
    import dp_accounting
    from dp_accounting import pld

    def event(noise: float) -> Any:
        sampled = dp_accounting.PoissonSampledDpEvent(
            rate, dp_accounting.GaussianDpEvent(noise)
        )
        return dp_accounting.SelfComposedDpEvent(sampled, steps)

    return dp_accounting.calibrate_dp_mechanism(
        lambda: pld.PLDAccountant(value_discretization_interval=1e-3),
        event,
        _TOTAL.value,
        _DELTA,
        dp_accounting.ExplicitBracketInterval(0.3, 50.0),
    )


def central(
    inputs: np.ndarray, labels: np.ndarray, noise: float, seed: int
) -> np.ndarray:
    """Weights (1 + f,) of DP-SGD on a logistic model, untuned."""
    rng = np.random.default_rng(seed)
    rows = np.hstack([np.ones((len(inputs), 1)), inputs])
    weights = np.zeros(rows.shape[1])
    for _ in range(100):
        batch = rng.random(len(rows)) < 0.1
        wrong = 1 / (1 + np.exp(-rows[batch] @ weights)) - labels[batch]
        gradients = wrong[:, None] * rows[batch]
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        clipped = (gradients / np.maximum(norms, 1.0)).sum(0)
        noised = clipped + noise * rng.normal(size=len(weights))
        weights -= 0.5 * noised / (0.1 * len(rows))
    return weights


def split_table(path: pathlib.Path, client: str | None, seed: int) -> Any:
    """The table with a column `split`, drawn by the seed as `train` draws it."""
    from fedsvp_jax.data.tables import cells, table, table_file

    columns, _ = table_file.read_table(path)
    rows = len(next(iter(columns.values())))
    clients = None if client is None else cells.distinct(columns[client])[1]
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

    asked: dict[str, Any] = {
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
    status, spent = summary["status"]["pld"], summary["epsilon_spent"]["pld"]
    if status != "proved" or spent > 1.000001 * _TOTAL.value:
        raise AssertionError(f"{status}, epsilon {spent}")
    return chances


def main(arguments: Sequence[str]) -> None:
    """Adds a row for each seed."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    from fedsvp_jax.data.tables import scores
    from fedsvp_jax.data.tables.schema import read_schema
    from fedsvp_jax.data.tables.table import from_table

    from . import provenance

    command.start_jax()
    path = pathlib.Path(arguments[1])
    schema = read_schema(pathlib.Path(_SCHEMA.value))
    noise = central_noise(100, 0.1)
    first, end = map(int, _SEEDS.value.split(":"))
    for seed in range(first, end):
        data = from_table(
            split_table(path, schema.client, seed), schema=schema, name=path.stem
        )
        x, y = np.asarray(data.train_inputs), np.asarray(data.train_labels)
        tested = np.asarray(data.test_inputs)
        trusts = {"server": "nobody"}
        if schema.client is not None:
            trusts = {"secure": "secure_aggregation"} | trusts
        chances = {arm: proposed(data, trust, seed) for arm, trust in trusts.items()}
        fits = {
            "logistic": LogisticRegression(max_iter=2000),
            "boosting": HistGradientBoostingClassifier(random_state=seed),
        }
        for arm, fit in fits.items():
            chances[arm] = fit.fit(x, y).predict_proba(tested)[:, 1]
        weights = central(x, y, noise, seed)
        logits = weights[0] + tested @ weights[1:]
        chances["central"] = 1 / (1 + np.exp(-logits))
        row: dict[str, Any] = {
            "table": path.stem,
            "epsilon": _TOTAL.value,
            "noise_of_central": noise,
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
