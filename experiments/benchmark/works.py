"""The works that are timed: models, sizes and synthetic data, as the peers have them.

Pixels are uniform uint8 and labels uniform, drawn by `np.random.default_rng(0)`: time
does not depend on what is learned. Every client holds exactly `Task.train` training
images and `Task.validation` more, which only privacy estimation looks at.
"""

import dataclasses
import math

import numpy as np

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Column, Dataset

ATTRIBUTE = "attribute"  # the column that the coalitions are made of


@dataclasses.dataclass(frozen=True)
class Task:
    """A model and its clients' data."""

    model: str
    side: int  # images are (side, side, channels)
    channels: int
    classes: int
    clients: int
    train: int  # training images a client
    validation: int  # validation images a client
    batch: int
    epochs: int


LEAF = Task("leaf_cnn", 28, 1, 62, 100, train=200, validation=50, batch=50, epochs=2)
SMALL = Task("small_cnn", 8, 1, 10, 100, train=14, validation=6, batch=7, epochs=2)
RESNET = Task("resnet18_gn", 32, 3, 10, 10, train=50, validation=10, batch=50, epochs=1)


@dataclasses.dataclass(frozen=True)
class Work:
    """One row of the benchmark.

    Attributes:
      name: what --works calls it.
      task: model and data.
      mechanism: `none`, `dp_fedavg`, or `fedsva`, which estimates privacy.
      num_attributes: N; 1 where nothing is estimated.
      sensitivity: what C clips beside the gradient of every step.
      l2_norm_clip: C; by default nothing is clipped, as in the peers' works.
      cohort_size: K.
      rounds_per_call: rounds of one compiled call, the sample that is timed.
      most_samples: samples taken at most, whatever --rounds asks for.
    """

    name: str
    task: Task
    mechanism: str = "none"
    num_attributes: int = 1
    sensitivity: str = "paper"
    l2_norm_clip: float = math.inf
    cohort_size: int = 10
    rounds_per_call: int = 1
    most_samples: int = 100


def _estimation(fedavg: Work) -> list[Work]:
    """FedAvg, then FedSVA with N = 2, ..., 5, all with the gradient's clip.

    C is so large that it never acts, and epsilon (`make_config`) so large that the
    noise leaves the numbers finite.
    """
    fedavg = dataclasses.replace(fedavg, l2_norm_clip=1e3)
    return [
        fedavg,
        *(
            dataclasses.replace(fedavg, mechanism="fedsva", num_attributes=n)
            for n in range(2, 6)
        ),
    ]


_ALL = [
    Work("W1", LEAF),
    Work("W1-DP", LEAF, "dp_fedavg", sensitivity="update_clip", l2_norm_clip=1.0),
    Work("W2", SMALL, rounds_per_call=20),
    Work("W3", RESNET, most_samples=2),
    *_estimation(Work("PE-W1", LEAF, cohort_size=3, most_samples=2)),
    *_estimation(Work("PE-W2", SMALL, rounds_per_call=10)),
]
SWEEP = "SWEEP"
NAMES = (*dict.fromkeys(work.name for work in _ALL), SWEEP)


def find(name: str) -> list[Work]:
    """The rows of a name: five for a work of privacy estimation, else one."""
    return [work for work in _ALL if work.name == name]


def make_dataset(work: Work) -> Dataset:
    """Every client's images, one writer a client, attributes taking turns.

    The cut into training and validation keeps every attribute's share, so that a
    client's training images are as evenly divided among the N attributes as can be.
    """
    task = work.task
    held = task.train + task.validation
    rng = np.random.default_rng(0)
    shape = (task.clients * held, task.side, task.side, task.channels)
    images = rng.integers(0, 256, shape, np.uint8)
    labels = rng.integers(0, task.classes, shape[0]).astype(np.int32)
    turns = np.tile(np.arange(held) % work.num_attributes, task.clients)
    names = tuple(f"part {index}" for index in range(work.num_attributes))
    return Dataset(
        name=work.name,
        train_inputs=images,
        train_labels=labels,
        test_inputs=images[:1],
        test_labels=labels[:1],
        num_classes=task.classes,
        train_writers=np.repeat(np.arange(task.clients, dtype=np.int32), held),
        columns={ATTRIBUTE: Column(turns.astype(np.int32), names)},
    )


def make_config(work: Work) -> ExperimentConfig:
    """The settings of a work; the test set is never reached.

    `iid` cuts equally; the coalitions need `by_writer`, where every client holds the
    same number of each attribute.
    """
    task = work.task
    rounds = 1_000_000
    return resolve(
        ExperimentConfig(
            dataset="npz",
            model=task.model,
            mechanism=work.mechanism,
            sensitivity=work.sensitivity,
            l2_norm_clip=work.l2_norm_clip,
            epsilon=1e6,
            allow_large_epsilon=True,
            noise_multiplier=1e-3,
            num_attributes=work.num_attributes,
            attributes=f"column:{ATTRIBUTE}",
            num_clients=task.clients,
            num_hbc_clients=0,
            cohort_size=work.cohort_size,
            num_rounds=rounds,
            eval_every=rounds,
            local_epochs=task.epochs,
            batch_size=task.batch,
            learning_rate=0.1,
            partition="iid" if work.num_attributes == 1 else "by_writer",
            train_fraction=task.train / (task.train + task.validation),
        )
    )
