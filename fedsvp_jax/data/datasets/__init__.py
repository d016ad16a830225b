"""Published data sets by name, with their readers and defaults.

`data.sources` loads this room when `--dataset` names one of them. A plugin may put its
own into `DATA_SETS`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedsvp_jax.core.files import Record, toml_beside

from ..dataset import Dataset, Facts
from . import adult, cifar, embedded, idx, leaf, tfds_source


class Published(NamedTuple):
    """A data set, or a family of them.

    Attributes:
      load: (name, folder) -> the data set; the name is the data set's own, or for
        `tfds:NAME` NAME.
      defaults: settings in which it differs from the papers' (`DEFAULTS`).
      facts: further facts that defaults depend on.
      needs_folder: whether data_dir must be given.
    """

    load: Callable[[str, Any], Dataset]
    defaults: Record
    facts: Facts = Facts()
    needs_folder: bool = True


DEFAULTS = toml_beside(__file__, "defaults.toml")

DATA_SETS = {
    "digits": Published(
        lambda *_: embedded.load_digits(), DEFAULTS["digits"], needs_folder=False
    ),
    "mnist": Published(idx.load_idx, DEFAULTS["mnist"]),
    "fashion_mnist": Published(idx.load_idx, DEFAULTS["fashion_mnist"]),
    "emnist": Published(idx.load_idx, DEFAULTS["emnist"]),
    "femnist": Published(
        lambda _, folder: leaf.load_femnist(folder), DEFAULTS["femnist"]
    ),
    "cifar10": Published(cifar.load_cifar, DEFAULTS["cifar10"]),
    "cifar100": Published(cifar.load_cifar, DEFAULTS["cifar100"]),
    "adult": Published(
        lambda _, folder: adult.load_adult(folder),
        DEFAULTS["adult"],
        Facts(categories=adult.CATEGORIES),
    ),
    "tfds": Published(tfds_source.load_tfds, DEFAULTS["tfds"], needs_folder=False),
}
