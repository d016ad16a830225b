"""The workloads that are timed: models, sizes and synthetic data.

Their sizes are those of the scripts that time the other libraries. Pixels are uniform
uint8 and labels uniform, drawn by `np.random.default_rng(0)`: time does not depend on
what is learned. Every client holds exactly `Task.train` training images and
`Task.validation` more, which only privacy estimation reads.
"""

import dataclasses
import math
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from fedsvp_jax.config import ExperimentConfig, ResolvedConfig, resolve
from fedsvp_jax.core.files import Record, toml_beside
from fedsvp_jax.data.dataset import Column, Dataset

ATTRIBUTE = "attribute"  # the column whose values are the attributes
_FILE = toml_beside(__file__, "workloads.toml")


@dataclasses.dataclass(frozen=True)
class Task:
    """A model and the clients' data."""

    model: str
    side: int  # images are (side, side, channels)
    channels: int
    classes: int
    clients: int
    train: int  # training images per client
    validation: int  # validation images per client
    batch: int
    epochs: int


@dataclasses.dataclass(frozen=True)
class Workload:
    """The work that one row of the benchmark times.

    Attributes:
      name: its name in --works.
      task: model and data.
      mechanism: `none`, `dp_fedavg`, or `fedsva`, which estimates privacy.
      num_attributes: N; 1 if nothing is estimated.
      shapley: how the Shapley values are estimated; additive without a correction.
      clipping: what C clips besides the gradient of every step.
      l2_norm_clip: C; by default nothing is clipped, as in the other libraries.
      cohort_size: K.
      rounds_per_call: rounds of one compiled call, which is one timed sample.
      compute_dtype: number format of the products of local training.
      most_samples: upper limit of samples, whatever --rounds is.
    """

    name: str
    task: Task
    mechanism: str = "none"
    num_attributes: int = 1
    shapley: str = "exact"
    clipping: str = "paper"
    l2_norm_clip: float = math.inf
    cohort_size: int = 10
    rounds_per_call: int = 1
    compute_dtype: str = "float32"
    most_samples: int = 100


def _rows(fedavg: Workload) -> list[Workload]:
    """A workload's rows: itself, or where it measures privacy estimation several.

    These are FedAvg, then FedSVA exact at N = 2, ..., 5 and additive at N = 5 and 16.

    A client holds an example of every attribute, so W2 has no N = 16. All have clipped
    gradients.

    C is so large that nothing is ever clipped.
    """
    if not fedavg.name.startswith("PE"):
        return [fedavg]
    fedavg = dataclasses.replace(fedavg, l2_norm_clip=1e3)
    games = [(n, "exact") for n in range(2, 6)]
    games += [(n, "additive") for n in (5, 16) if n <= fedavg.task.train]
    estimated = dataclasses.replace(fedavg, mechanism="fedsva")
    return [
        fedavg,
        *(
            dataclasses.replace(estimated, num_attributes=n, shapley=shapley)
            for n, shapley in games
        ),
    ]


SWEEP = "SWEEP"
NAMES = (*_FILE["workloads"], SWEEP)


def of_name(name: str) -> list[Workload]:
    """The workloads of a name: several if it measures privacy estimation, else one.

    W2 stands for the sweep.
    """
    settings = _FILE["workloads"]["W2" if name == SWEEP else name]
    task = Task(**_FILE["tasks"][settings["task"]])
    return _rows(Workload(**settings | {"name": name, "task": task}))


def make_dataset(workload: Workload) -> Dataset:
    """Every client's images, one writer per client.

    A client's images take the N attributes in turn. The split into training and
    validation keeps every attribute's share, so a client's training images are divided
    among the attributes as evenly as possible.
    """
    task = workload.task
    per_client = task.train + task.validation
    rng = np.random.default_rng(0)
    shape = (task.clients * per_client, task.side, task.side, task.channels)
    images = rng.integers(0, 256, shape, np.uint8)
    labels = rng.integers(0, task.classes, shape[0]).astype(np.int32)
    attributes = np.tile(np.arange(per_client) % workload.num_attributes, task.clients)
    names = tuple(f"part {index}" for index in range(workload.num_attributes))
    return Dataset(
        name=workload.name,
        train_inputs=images,
        train_labels=labels,
        test_inputs=images[:1],
        test_labels=labels[:1],
        num_classes=task.classes,
        train_writers=np.repeat(np.arange(task.clients, dtype=np.int32), per_client),
        columns={ATTRIBUTE: Column(attributes.astype(np.int32), names)},
    )


def make_config(workload: Workload) -> ResolvedConfig:
    """The settings of a workload.

    `iid` gives all clients as many examples. The coalitions need `by_writer`, which
    also gives all clients as many examples of each attribute.
    """
    task = workload.task
    return resolve(
        ExperimentConfig(
            **_FILE["settings"],
            model=task.model,
            **{name: getattr(workload, name) for name in _FILE["of_workloads"]},
            attributes=f"column:{ATTRIBUTE}",
            num_clients=task.clients,
            local_epochs=task.epochs,
            batch_size=task.batch,
            partition="iid" if workload.num_attributes == 1 else "by_writer",
            train_fraction=task.train / (task.train + task.validation),
        )
    )


def in_new_process(make_row: Callable[..., Record], *args: Any) -> Any:
    """What the function returns in a process of its own, which has this environment."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as processes:
        return processes.submit(make_row, *args).result()
