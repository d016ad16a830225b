"""What the server and the hospitals agree on before the first round.

    cd examples/flower_sums; python -m sums.federation FOLDER HOSPITALS

deals the published breast cancer table to FOLDER/hospital-0.csv and so on, of which the
first has benign cases alone, keeps rows for later in new.csv, and begins each log. A
hospital brings its own table instead; schema.toml makes its features and classes those
of all, and is written without the records.
"""

import csv
import os
import pathlib
import sys

import numpy as np

from fedsvp_jax.config import ExperimentConfig, ResolvedConfig, resolve
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables.schema import read_schema
from fedsvp_jax.deploy import (
    SECRET,
    Client,
    Randomness,
    Seeded,
    make_policy,
    own_data,
)
from fedsvp_jax.federation import loading

MIN_NUM_EXAMPLES = 20  # of any hospital, after some rows are left out for its tests
SCHEMA = """schema = 1
unit = "client"
test_fraction = 0.1
[label]
column = "finding"
classes = ["benign", "malignant"]
[columns.radius]
type = "number"
bounds = [5, 30]
[columns.texture]
type = "number"
bounds = [5, 40]
[columns.concavity]
type = "number"
bounds = [0, 0.5]
"""


def settings(folder: pathlib.Path, hospitals: int) -> ResolvedConfig:
    """A third of the hospitals may drop out or be curious, less one."""
    return resolve(
        ExperimentConfig(
            dataset="csv",
            schema=str(folder / "schema.toml"),
            model="logistic",
            num_clients=hospitals,
            num_hbc_clients=0,
            cohort_size=hospitals,
            num_attributes=1,
            num_rounds=3,
            local_epochs=5,
            batch_size=10,
            learning_rate=0.5,
            mechanism="gaussian",
            clipping="update_clip",
            l2_norm_clip=1.0,
            relation="add_remove",
            noise_trust="secure_aggregation",
            noise_sampler="discrete",
            colluders=max(2, hospitals // 3),
            total_epsilon=8.0,
            solve="noise",
        )
    )


def randomness(number: int) -> Randomness:
    """Secret; a seed is for tests, hides nothing, and says so."""
    seed = os.environ.get("FEDSVP_TEST_SEED")
    return Seeded(int(seed), number) if seed else SECRET


def client_of(number: int, folder: pathlib.Path, hospitals: int) -> Client:
    """A hospital with its own table, FOLDER/hospital-NUMBER.csv."""
    config = settings(folder, hospitals)
    table = ExperimentConfig(
        dataset="csv",
        data_dir=str(folder / f"hospital-{number}.csv"),
        schema=config.schema,
    )
    return Client(
        make_policy(config, min_num_examples=MIN_NUM_EXAMPLES),
        own_data(config, loading.load_dataset(resolve(table))),
        folder / f"log-{number}",
        randomness=randomness(number),
    )


def server_of(folder: pathlib.Path, hospitals: int) -> Client:
    """It answers nobody: it makes the first model as all do, of the schema alone."""
    config = settings(folder, hospitals)
    schema = read_schema(folder / "schema.toml")
    rows = np.zeros((100, sum(one.width for one in schema.columns.values())), "f4")
    none = np.zeros(100, np.int32)
    dataset = Dataset("none", rows, none, rows[:1], none[:1], len(schema.classes))
    return Client(
        make_policy(config, min_num_examples=MIN_NUM_EXAMPLES),
        own_data(config, dataset),
        folder / "server",
    )


def deal(folder: pathlib.Path, hospitals: int) -> None:
    """Writes the schema and the tables."""
    from sklearn.datasets import load_breast_cancer  # a second of every client's start

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.toml").write_text(SCHEMA)
    table = load_breast_cancer()
    names = np.array(["malignant", "benign"])[table.target]
    numbers = table.data[:, [0, 1, 6]]
    order = np.random.default_rng(0).permutation(len(names))
    new, rest = order[:69], order[69:]
    first = rest[names[rest] == "benign"][: len(rest) // hospitals]
    others = np.array_split(np.setdiff1d(rest, first), hospitals - 1)
    for file, rows in [
        ("new.csv", new),
        *((f"hospital-{k}.csv", part) for k, part in enumerate([first, *others])),
    ]:
        with (folder / file).open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(["radius", "texture", "concavity", "finding"])
            writer.writerows([*numbers[row], names[row]] for row in rows)


if __name__ == "__main__":
    place, number_of_hospitals = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    deal(place, number_of_hospitals)
    for each in range(number_of_hospitals):
        client_of(each, place, number_of_hospitals).begin()
