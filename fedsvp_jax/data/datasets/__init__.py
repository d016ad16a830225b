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
    facts: Facts
    needs_folder: bool


DEFAULTS = toml_beside(__file__, "defaults.toml")

_READERS: dict[str, Callable[[str, Any], Dataset]] = {
    "digits": lambda *_: embedded.load_digits(),
    **dict.fromkeys(("mnist", "fashion_mnist", "emnist"), idx.load_idx),
    "femnist": lambda _, folder: leaf.load_femnist(folder),
    **dict.fromkeys(("cifar10", "cifar100"), cifar.load_cifar),
    "adult": lambda _, folder: adult.load_adult(folder),
    "tfds": tfds_source.load_tfds,
}
DATA_SETS = {
    name: Published(
        read,
        DEFAULTS[name],
        Facts(categories=adult.CATEGORIES if name == "adult" else {}),
        needs_folder=name not in ("digits", "tfds"),
    )
    for name, read in _READERS.items()
}
