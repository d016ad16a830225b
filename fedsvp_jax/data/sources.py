"""Data sets by name, and the way from the host's arrays to the device's."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.data.formats import cifar, embedded, idx, leaf, npz, tabular
from fedsvp_jax.data.formats import tfds_source as tfds_format
from fedsvp_jax.data.row_source import RowSource
from fedsvp_jax.structs import Array, Examples

__all__ = [
    "NAMES",
    "Column",
    "Dataset",
    "device_examples",
    "load",
    "normalize",
    "open_rows",
    "to_rgb32",
]

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


def normalize(inputs: Array) -> Array:
    """What a model sees: uint8 pixels x as (x - 127.5) / 127.5 in [-1, 1].

    Floats pass as they are. The pixel range is the papers' (the authors' code). Runs
    inside jit with the bits it has outside: the difference is exact, and a product
    by a constant is rounded once, where a compiled division may be either.

    Args:
      inputs: (..., *example_shape) uint8 or float32.

    Returns:
      (..., *example_shape) float32.
    """
    if inputs.dtype == jnp.uint8:
        return (inputs.astype(jnp.float32) - 127.5) * (1 / 127.5)
    return inputs


def to_rgb32(dataset: Dataset) -> Dataset:
    """The images as 32×32×3, as the papers' EMNIST CNN takes them.

    Smaller images are centred and their edge pixels continued outwards, which keeps
    a black (EMNIST) or a white (LEAF FEMNIST) background; a single channel is
    repeated. The source does not say how its images were enlarged: a reconstruction.

    Raises:
      ValueError: the inputs are no uint8 images of at most 32×32 and 1 or 3 channels.
    """
    shape = dataset.example_shape
    if (
        dataset.train_inputs.dtype != np.uint8
        or len(shape) != 3
        or max(shape[:2]) > 32
        or shape[2] not in (1, 3)
    ):
        raise ValueError(
            f"dataset {dataset.name} holds {dataset.train_inputs.dtype} examples of "
            f"the shape {shape}; to_rgb32 expects uint8 images of at most 32×32 and 1 "
            "or 3 channels"
        )
    margins = [((32 - side) // 2, (33 - side) // 2) for side in shape[:2]]

    def enlarge(images: np.ndarray) -> np.ndarray:
        padded = np.pad(images, [(0, 0), *margins, (0, 0)], mode="edge")
        return np.repeat(padded, 3 // shape[2], axis=-1)

    return dataclasses.replace(
        dataset,
        train_inputs=enlarge(dataset.train_inputs),
        test_inputs=enlarge(dataset.test_inputs),
    )


def device_examples(
    inputs: np.ndarray, labels: np.ndarray, attributes: np.ndarray | None = None
) -> Examples:
    """The arrays on the device, as stored: uint8 pixels stay uint8.

    Args:
      inputs: (n, *example_shape) uint8 or float32.
      labels: (n,) int32.
      attributes: (n,) int32, or None for a test set, whose attributes nothing reads.

    Raises:
      ValueError: the arrays are not equally long.
    """
    if attributes is None:
        attributes = np.zeros(len(labels), np.int32)
    if not len(inputs) == len(labels) == len(attributes):
        raise ValueError(
            "inputs, labels and attributes must be equally long, got "
            f"{len(inputs)}, {len(labels)} and {len(attributes)}"
        )
    return Examples(
        inputs=jnp.asarray(inputs),
        labels=jnp.asarray(labels, jnp.int32),
        attributes=jnp.asarray(attributes, jnp.int32),
    )
