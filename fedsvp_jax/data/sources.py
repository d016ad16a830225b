"""Data sets by name, and the way from the host's arrays to the device's."""

import functools
from collections.abc import Callable
from pathlib import Path

from fedsvp_jax.data.dataset import Dataset, RowSource
from fedsvp_jax.data.formats import cifar, embedded, idx, leaf, npz, tabular
from fedsvp_jax.data.formats import tfds_source as tfds_format

_TFDS_PREFIX = "tfds:"

_READERS: dict[str, Callable[[Path], Dataset]] = {
    "mnist": functools.partial(idx.load_idx, "mnist"),
    "fashion_mnist": functools.partial(idx.load_idx, "fashion_mnist"),
    "emnist": functools.partial(idx.load_idx, "emnist"),
    "cifar10": cifar.load_cifar10,
    "cifar100": cifar.load_cifar100,
    "femnist": leaf.load_femnist,
    "npz": npz.load_npz,
    "adult": tabular.load_adult,
}

NAMES = ("digits", *_READERS, "tfds:NAME")


def load(name: str, data_dir: str | Path | None = None) -> Dataset:
    """The data set `name`, read from its standard files and checked.

    Args:
      name: one of `NAMES`; after `tfds:` a name as tensorflow-datasets spells it.
      data_dir: the folder that holds the data set's files, or its parent; for
        `npz` the file; for the MNIST format a folder or the training images' file.
        `digits` takes none, `tfds:NAME` may go without (TFDS's own default).

    Raises:
      FileNotFoundError: a folder or file is missing.
      ValueError: the name is unknown, data_dir is not given, or a file is damaged.
    """
    folder = Path(data_dir).expanduser() if data_dir is not None else None
    if name == "digits":
        return embedded.load_digits()
    if name.startswith(_TFDS_PREFIX) and name != _TFDS_PREFIX:
        return tfds_format.load_tfds(name.removeprefix(_TFDS_PREFIX), folder)
    if name not in _READERS:
        raise ValueError(f"dataset must be one of {', '.join(NAMES)}, got {name!r}")
    if folder is None:
        raise ValueError(f"dataset {name} needs data_dir, where its files are")
    return _READERS[name](folder)


def open_rows(name: str, data_dir: str | Path | None, scratch: Path) -> RowSource:
    """The data set `name` with its training inputs read by row.

    `npz` and `tfds:NAME` leave them on disk; the others are loaded.

    Args:
      name, data_dir: as `load` takes them.
      scratch: an empty folder, for an .npz file's unpacked inputs.

    Raises:
      FileNotFoundError, ValueError: as `load`.
    """
    folder = Path(data_dir).expanduser() if data_dir is not None else None
    if name == "npz" and folder is not None:
        return npz.open_npz(folder, scratch)
    if name.startswith(_TFDS_PREFIX) and name != _TFDS_PREFIX:
        return tfds_format.open_tfds(name.removeprefix(_TFDS_PREFIX), folder)
    dataset = load(name, data_dir)
    return RowSource(
        name=dataset.name,
        train_labels=dataset.train_labels,
        train_writers=dataset.train_writers,
        rows=lambda index: dataset.train_inputs[index],
        test_inputs=dataset.test_inputs,
        test_labels=dataset.test_labels,
        num_classes=dataset.num_classes,
    )
