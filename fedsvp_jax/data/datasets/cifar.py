"""CIFAR-10 and CIFAR-100 in their binary format: one record per image.

A record is one label byte (for CIFAR-100 two: a coarse and a fine label), then 3,072
pixel bytes: the red, green and blue planes of a 32×32 image, row by row
(Krizhevsky 2009, the data sets' own description). The fine label is used.
"""

from pathlib import Path

import numpy as np

from fedsvp_jax.core.files import toml_beside

from ..dataset import Dataset, Part
from ..tables import files
from . import folders

_PIXELS = 3 * 32 * 32


_FILES = toml_beside(__file__, "files.toml")


def _read(path: Path, name: str) -> Part:
    """Images (n, 32, 32, 3) uint8 and labels (n,) int32 of one file."""
    raw = np.frombuffer(path.read_bytes(), np.uint8)
    place = _FILES[name]
    label_bytes = place["label_bytes"]
    record = label_bytes + _PIXELS
    if not raw.size or raw.size % record:
        raise ValueError(
            f"{path} has {raw.size} bytes; {name} expects one or more whole records "
            f"of {record} bytes"
        )
    records = raw.reshape(-1, record)
    planes = records[:, label_bytes:].reshape(-1, 3, 32, 32)
    labels = files.check_labels(records[:, label_bytes - 1], place["num_classes"], path)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


def load_cifar(name: str, data_dir: Path) -> Dataset:
    """`cifar10` from `cifar-10-batches-bin`, `cifar100` from `cifar-100-binary`.

    A file may hold any whole number of records.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file is truncated or holds an unknown label.
    """
    place = _FILES[name]
    folder = folders.find_folder(
        data_dir, place["folders"], place["train"][0], data_set=name
    )
    parts = [_read(folder / file, name) for file in place["train"]]
    inputs, labels = map(np.concatenate, zip(*parts, strict=True))
    test = _read(folder / place["test"], name)
    return Dataset(name, inputs, labels, *test, place["num_classes"], public_test=True)
