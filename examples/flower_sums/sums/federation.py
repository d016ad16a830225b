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
    Policy,
    Randomness,
    Seeded,
    make_policy,
    own_data,
)
from fedsvp_jax.federation import loading

# Rows of any hospital, at least and at most: public, and agreed on before the first
# round. A gradient is the sum over a hospital's rows divided by the most.
MIN_NUM_EXAMPLES, MAX_NUM_EXAMPLES = 20, 100
SCHEMA = """schema = 1
unit = "row"
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
    """One row of a hospital is hidden; a third of them may drop out or be curious."""
    return resolve(
        ExperimentConfig(
            dataset="csv",
            schema=str(folder / "schema.toml"),
            model="logistic",
            num_clients=hospitals,
            num_hbc_clients=0,
            cohort_size=hospitals,
            num_attributes=1,
            train_fraction=1.0,
            num_rounds=6,
            mechanism="gaussian",
            clipping="per_example",  # DP-SGD: each row's gradient is clipped to C
            relation="add_remove",
            l2_norm_clip=2.0,  # of rows whose features lie in [-1, 1]
            separate_clips=True,
            batches="poisson",
            local_steps=1,
            batch_size=MAX_NUM_EXAMPLES,
            learning_rate=6.0,  # of gradients that are divided by 100, not by 40
            noise_trust="secure_aggregation",
            noise_sampler="discrete",
            noise_bits=24,
            colluders=max(2, hospitals // 3),
            total_epsilon=3.0,
            solve="noise",
            delta=1e-5,
        )
    )


def randomness(number: int) -> Randomness:
    """Secret; a seed is for tests, hides nothing, and says so."""
    seed = os.environ.get("FEDSVP_TEST_SEED")
    return Seeded(int(seed), number) if seed else SECRET


def policy_of(config: ResolvedConfig) -> Policy:
    """What all hospitals agree on."""
    return make_policy(
        config,
        min_num_examples=MIN_NUM_EXAMPLES,
        max_num_examples=MAX_NUM_EXAMPLES,
    )


def client_of(number: int, folder: pathlib.Path, hospitals: int) -> Client:
    """A hospital with its own table, FOLDER/hospital-NUMBER.csv."""
    config = settings(folder, hospitals)
    table = ExperimentConfig(
        dataset="csv",
        data_dir=str(folder / f"hospital-{number}.csv"),
        schema=config.schema,
    )
    return Client(
        policy_of(config),
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
        policy_of(config),
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
