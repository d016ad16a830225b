"""Published data sets by name, with their readers and defaults.

`data.sources` loads this room when `--dataset` names one of them. A plugin may put its
own into `DATA_SETS` and `DEFAULTS`.
"""

from collections.abc import Callable
from typing import Any

from fedsvp_jax.core.files import toml_beside

from ..dataset import Dataset, Facts
from . import adult, cifar, embedded, idx, leaf, tfds_source

DEFAULTS = toml_beside(__file__, "defaults.toml")
# (name, folder) -> the data set; the name is its own, or for `tfds:NAME` NAME.
DATA_SETS: dict[str, Callable[[str, Any], Dataset]] = {
    "digits": lambda *_: embedded.load_digits(),
    **dict.fromkeys(("mnist", "fashion_mnist", "emnist"), idx.load_idx),
    "femnist": lambda _, folder: leaf.load_femnist(folder),
    **dict.fromkeys(("cifar10", "cifar100"), cifar.load_cifar),
    "adult": lambda _, folder: adult.load_adult(folder),
    "tfds": tfds_source.load_tfds,
}
WITHOUT_FOLDER = ("digits", "tfds")  # for which data_dir need not be given
# Of further facts that defaults depend on, where there are any.
FACTS = {"adult": Facts(categories=adult.CATEGORIES)}
