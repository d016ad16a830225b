"""Published data sets by name, with their readers and defaults.

`data.sources` loads this room when `--dataset` names one of them. A plugin may put its
own into `DATA_SETS`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedsvp_jax.data.dataset import Dataset, Facts
from fedsvp_jax.data.datasets import adult, cifar, embedded, idx, leaf, tfds_source


class Published(NamedTuple):
    """A data set, or a family of them.

    Attributes:
      load: (name, folder) -> the data set; the name is the data set's own, or for
        `tfds:NAME` NAME.
      defaults: settings in which it differs from the papers' (`config`).
      facts: further facts that defaults depend on.
      needs_folder: whether data_dir must be given.
    """

    load: Callable[[str, Any], Dataset]
    defaults: Mapping[str, Any]
    facts: Facts = Facts()
    needs_folder: bool = True


_MNIST = {"model": "leaf_cnn", "warmup_examples": 600}
_CIFAR = {"model": "resnet18", "augment": True}

DATA_SETS = {
    "digits": Published(
        lambda *_: embedded.load_digits(),
        {
            "model": "small_cnn",
            "num_clients": 30,
            "num_hbc_clients": 3,
            "batch_size": 10,
            "class_share": 0.1,
            "l2_norm_clip": 1.0,
            "warmup_examples": 100,
            "contributor_examples": 56,
            "tester_examples": 28,
            "vote_epsilon": math.inf,
        },
        needs_folder=False,
    ),
    "mnist": Published(idx.load_idx, _MNIST),
    "fashion_mnist": Published(idx.load_idx, _MNIST),
    "emnist": Published(idx.load_idx, {"model": "paper_cnn"}),
    "femnist": Published(
        lambda _, folder: leaf.load_femnist(folder),
        {"model": "leaf_cnn", "partition": "by_writer"},
    ),
    "cifar10": Published(cifar.load_cifar, _CIFAR),
    "cifar100": Published(cifar.load_cifar, _CIFAR),
    "adult": Published(
        lambda _, folder: adult.load_adult(folder),
        {
            "model": "mlp",
            "partition": "iid",
            "private_attribute": 0,
            "l2_norm_clip": 1.0,  # at the published 20 and |D| = 260, σ is .9 at ε = .5
        },
        Facts(categories=adult.CATEGORIES),
    ),
    "tfds": Published(
        tfds_source.load_tfds,
        {"model": "small_cnn", "private_attribute": 0},
        needs_folder=False,
    ),
}
