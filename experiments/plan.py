"""Says what a table can afford: risk and accuracy by ε, on synthetic rows.

  fedsvp plan DATA.csv --schema=schema.toml --total_epsilons=1,3,8

Of DATA.csv only the number of rows of every client, and of every person of a [person]
column, is read, which is public in any case. As many rows are drawn from the schema:
numbers uniformly between their bounds, categories evenly, classes by a random linear
model. The route of train --goal is then trained on them at every ε and seed, and FedAvg
without noise. So the loss by the noise is that of clients of these sizes and of so many
features; the accuracy of your own rows is not known before a run, and none of it is
spent here.

Written to --output_dir: epsilon.html, a page with a slider for ε that needs no network,
and epsilon.json, its numbers. Risk is what ε and δ bound, whatever an adversary knows
of all other rows (fedsvp_jax/accounting/tradeoff.py).

Exit status: 0 done; 2 a file cannot be read (one line says why).
"""

import dataclasses
import math
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from . import command, flag_values, goal, printed

_SCHEMA = flags.DEFINE_string("schema", None, "The table's schema.", required=True)
_EPSILONS = flags.DEFINE_list(
    "total_epsilons",
    [".5", "1", "2", "3", "5", "8"],
    "ε of the whole run, with commas between them.",
)
_CLIENTS = flags.DEFINE_integer(
    "num_clients",
    1,
    "Clients where no column names them; the rows are dealt evenly.",
    lower_bound=1,
)
_SEED = flags.DEFINE_integer("seed", 0, "Of the synthetic rows and the training.")
_SEEDS = flags.DEFINE_integer(
    "num_seeds", 3, "Trainings at every ε, for the interval.", lower_bound=1
)
_TESTED = 2000  # synthetic rows for the test
_SLOPE = 4.0  # of the random linear model: noise-free accuracies are far from 1/2 and 1


def synthetic(schema: Any, sizes: Sequence[int], seed: int, persons: Any = None) -> Any:
    """A data set of the schema's shape with so many training rows of each client.

    `persons`, (rows,) says whose each is; None: each is of a person of its own.
    """
    from fedsvp_jax.data.dataset import Dataset

    rng = np.random.default_rng(seed)
    rows, blocks = sum(sizes) + _TESTED, []
    for column in schema.columns.values():
        if column.type == "category":
            codes = rng.integers(column.width, size=rows)
            blocks.append(np.eye(column.width, dtype=np.float32)[codes])
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
        from_records=schema.from_records,
        public_test=True,
        train_persons=persons,
        rows_per_person=schema.rows_per_person if schema.unit == "person" else None,
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
    from fedsvp_jax.accounting.claims import meaning
    from fedsvp_jax.data.tables import csv_file
    from fedsvp_jax.data.tables.schema import read_schema
    from fedsvp_jax.report import epsilon_page

    schema = read_schema(pathlib.Path(_SCHEMA.value))
    path = pathlib.Path(arguments[1])
    table = csv_file.read_csv(path, schema.encoding)
    if schema.client is not None and schema.client not in table:
        raise ValueError(f"{path} lacks the column {schema.client}")
    rows = len(next(iter(table.values())))
    sizes = [len(part) for part in np.array_split(np.arange(rows), _CLIENTS.value)]
    if schema.client is not None:
        sizes = np.unique(table[schema.client], return_counts=True)[1].tolist()
    train_share = 1 - (schema.test_fraction or 0.2)
    sizes = [max(2, round(train_share * size)) for size in sizes]
    persons = None
    if schema.person is not None:
        sizes, persons = _persons(schema, table, train_share)
    data = synthetic(schema, sizes, _SEED.value, persons)
    document = _planned(data, epsilons)
    document["data"] = path.stem
    document["nist_sp_800_226"]["data_collection_exposure"] = (
        "none: only the numbers of rows were read"
    )
    main = _main(document["points"][0])
    print(
        f"{_sizes_text(sizes)} training rows, synthetic rows of the schema; "
        f"every ε is at δ = {main['delta']:g}; {meaning(main)}; without "
        f"noise: accuracy {document['fedavg']['mean']:.3f}, guessing "
        f"{document['guessing']:.3f}\n"
    )
    print(printed.table([_row(point, document) for point in document["points"]]))
    if schema.from_records:
        print("\nThe schema was read off the records: a run on it is nominal.")
    command.print_files(
        epsilon_page.write_epsilon_page(flags.FLAGS.output_dir, document)
    )


def _persons(schema: Any, table: Any, share: float) -> tuple[list[int], np.ndarray]:
    """Each client's training rows, and whose they are: by the numbers in the table."""
    persons = np.unique(table[schema.person], return_inverse=True)[1]
    client = np.zeros_like(persons)
    if schema.client is not None:
        client = np.unique(table[schema.client], return_inverse=True)[1]
    limit = schema.rows_per_person if schema.unit == "person" else len(persons)
    pairs, counts = np.unique(np.stack([client, persons]), axis=1, return_counts=True)
    counts = np.minimum(counts, limit)
    numbers = [np.flatnonzero(pairs[0] == number) for number in np.unique(pairs[0])]
    train = [part[: max(2, round(share * len(part)))] for part in numbers]
    sizes = [int(counts[part].sum()) for part in train]
    chosen = np.concatenate(train)
    return sizes, np.repeat(np.arange(len(chosen)), counts[chosen])


def _sizes_text(sizes: Sequence[int]) -> str:
    if len(sizes) == 1:
        return f"1 client of {sizes[0]}"
    return f"{len(sizes)} clients of {min(sizes)} to {max(sizes)}"


def _main(point: dict[str, Any]) -> dict[str, Any]:
    """The guarantee against the adversary of the mechanism's claim."""
    guarantees: list[dict[str, Any]] = point["guarantees"]
    return next(
        guarantee
        for guarantee in guarantees
        if guarantee["adversary"] == point["adversary"]
    )


def _row(point: dict[str, Any], document: dict[str, Any]) -> dict[str, str]:
    main = _main(point)
    mean = point["accuracy"]["mean"]
    bare, guess = document["fedavg"]["mean"], document["guessing"]
    part = 100 * (mean - guess) / (bare - guess) if bare > guess else math.nan
    return {
        "ε of the run": f"{point['epsilon']:g}",
        "guesses right, of 100, at most": f"{main['risk']['right_of_100']:.1f}",
        "recognised at 1 % false, at most": f"{main['risk']['recognised']:.3f}",
        "accuracy": f"{mean:.3f}",
        "left of the gain over guessing, %": f"{part:.0f}",
        "status": main["status"],
    }


def _planned(data: Any, epsilons: tuple[float, ...]) -> dict[str, Any]:
    """What epsilon.json says: the route at every ε, FedAvg on the same clients."""
    from fedsvp_jax.config import ExperimentConfig, resolve
    from fedsvp_jax.report import epsilon_page, read
    from fedsvp_jax.run.sweep import SweepPlan, sweep

    seeds = tuple(range(_SEED.value, _SEED.value + _SEEDS.value))
    base = ExperimentConfig(dataset="csv", seed=_SEED.value)
    route = goal.route_settings(base, data)
    route |= {"solve": "uploads", "eval_every": route["num_rounds"]}
    config = resolve(dataclasses.replace(base, **route), data)
    fedavg = resolve(ExperimentConfig(**goal.reference(config)), data)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        plan = SweepPlan(("none",), (fedavg.epsilon,), seeds)
        sweep(fedavg, plan, place / "fedavg", dataset=data)
        plan = SweepPlan(
            (config.mechanism,), (config.epsilon,), seeds, total_epsilons=epsilons
        )
        sweep(config, plan, place / "route", dataset=data)
        bare = epsilon_page.document(read.read_sweep(place / "fedavg"))["fedavg"]
        return epsilon_page.document(
            read.read_sweep(place / "route"),
            reference=bare,
            rows="synthetic rows that were drawn from the schema",
        )


if __name__ == "__main__":  # `output_dir` is a flag of other commands too
    flags.DEFINE_string("output_dir", "plan", "Folder of epsilon.html and .json.")
    command.run(main, __doc__, takes_arguments=True)
