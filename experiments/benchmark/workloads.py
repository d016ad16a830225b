"""The workloads that are timed: models, sizes and synthetic data.

Their sizes are those of the scripts that time the other libraries. Pixels are uniform
uint8 and labels uniform, drawn by `np.random.default_rng(0)`: time does not depend on
what is learned. Every client holds exactly `Workload.train` training images and
`Workload.validation` more, which only privacy estimation reads.
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
from fedsvp_jax.core.settings import part
from fedsvp_jax.data.dataset import Column, Dataset

ATTRIBUTE = "attribute"  # the column whose values are the attributes
_FILE = toml_beside(__file__, "workloads.toml")


@dataclasses.dataclass(frozen=True)
class Workload:
    """The work that one row of the benchmark times.

    Attributes:
      name: its name in --works.
      side, channels, num_classes: of images (side, side, channels).
      train, validation: images of each client.
      model, num_clients, batch_size, local_epochs: settings of the same names, as are
        those that follow but for the calls and samples.
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
    model: str
    side: int
    channels: int
    num_classes: int
    num_clients: int
    train: int
    validation: int
    batch_size: int
    local_epochs: int
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
    games += [(n, "additive") for n in (5, 16) if n <= fedavg.train]
    return [
        fedavg,
        *(
            dataclasses.replace(
                fedavg, mechanism="fedsva", num_attributes=n, shapley=shapley
            )
            for n, shapley in games
        ),
    ]


SWEEP = "SWEEP"
NAMES = (*_FILE["workloads"], SWEEP)


def of_name(name: str) -> list[Workload]:
    """The workloads of a name: several if it measures privacy estimation, else one.

    W2 stands for the sweep.
    """
    settings = dict(_FILE["workloads"]["W2" if name == SWEEP else name])
    task = _FILE["tasks"][settings.pop("task")]
    return _rows(Workload(name=name, **task | settings))


def make_dataset(workload: Workload) -> Dataset:
    """Every client's images, one writer per client.

    A client's images take the N attributes in turn. The split into training and
    validation keeps every attribute's share, so a client's training images are divided
    among the attributes as evenly as possible.
    """
    per_client = workload.train + workload.validation
    rng = np.random.default_rng(0)
    clients, side = workload.num_clients, workload.side
    shape = (clients * per_client, side, side, workload.channels)
    images = rng.integers(0, 256, shape, np.uint8)
    labels = rng.integers(0, workload.num_classes, shape[0]).astype(np.int32)
    attributes = np.tile(np.arange(per_client) % workload.num_attributes, clients)
    names = tuple(f"part {index}" for index in range(workload.num_attributes))
    return Dataset(
        name=workload.name,
        train_inputs=images,
        train_labels=labels,
        test_inputs=images[:1],
        test_labels=labels[:1],
        num_classes=workload.num_classes,
        train_writers=np.repeat(np.arange(clients, dtype=np.int32), per_client),
        columns={ATTRIBUTE: Column(attributes.astype(np.int32), names)},
    )


def make_config(workload: Workload) -> ResolvedConfig:
    """The settings of a workload.

    `iid` gives all clients as many examples. The coalitions need `by_writer`, which
    also gives all clients as many examples of each attribute.
    """
    return resolve(
        part(
            ExperimentConfig,
            workload,
            **_FILE["settings"],
            attributes=f"column:{ATTRIBUTE}",
            partition="iid" if workload.num_attributes == 1 else "by_writer",
            train_fraction=workload.train / (workload.train + workload.validation),
        )
    )


def in_new_process(make_row: Callable[..., Record], *args: Any) -> Any:
    """What the function returns in a process of its own, which has this environment."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as processes:
        return processes.submit(make_row, *args).result()
