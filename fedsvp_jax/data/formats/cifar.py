"""CIFAR-10 and CIFAR-100 in their binary format: one record per image.

A record is one label byte (for CIFAR-100 two: a coarse and a fine label), then 3,072
pixel bytes: the red, green and blue planes of a 32×32 image, row by row
(Krizhevsky 2009, the data sets' own description). The fine label is used.
"""

from pathlib import Path

import numpy as np

from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.formats import files

_PIXELS = 3 * 32 * 32


def _read(
    path: Path, *, label_bytes: int, num_classes: int, what: str
) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 32, 32, 3) uint8 and labels (n,) int32 of one file."""
    raw = np.frombuffer(files.read_bytes(path, what=what), np.uint8)
    record = label_bytes + _PIXELS
    if not raw.size or raw.size % record:
        raise ValueError(
            f"{path} has {raw.size} bytes; {what} expects one or more whole records "
            f"of {record} bytes"
        )
    records = raw.reshape(-1, record)
    planes = records[:, label_bytes:].reshape(-1, 3, 32, 32)
    labels = files.check_labels(records[:, label_bytes - 1], num_classes, path)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


def load_cifar10(data_dir: Path) -> Dataset:
    """CIFAR-10 from `cifar-10-batches-bin`: five training batches and one test batch.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file is truncated or holds an unknown label.
    """
    folder = files.find_folder(
        data_dir, ["cifar-10-batches-bin"], "data_batch_1.bin", what="cifar10"
    )

    def read(name: str) -> tuple[np.ndarray, np.ndarray]:
        return _read(folder / name, label_bytes=1, num_classes=10, what="cifar10")

    batches = [read(f"data_batch_{number}.bin") for number in range(1, 6)]
    test_inputs, test_labels = read("test_batch.bin")
    return Dataset(
        name="cifar10",
        train_inputs=np.concatenate([inputs for inputs, _ in batches]),
        train_labels=np.concatenate([labels for _, labels in batches]),
        test_inputs=test_inputs,
        test_labels=test_labels,
        num_classes=10,
    )


def load_cifar100(data_dir: Path) -> Dataset:
    """CIFAR-100's fine labels from `cifar-100-binary` (`train.bin`, `test.bin`).

    `train.bin` may hold any whole number of records.

    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file is truncated or holds an unknown label.
    """
    folder = files.find_folder(
        data_dir, ["cifar-100-binary"], "train.bin", what="cifar100"
    )

    def read(name: str) -> tuple[np.ndarray, np.ndarray]:
        return _read(folder / name, label_bytes=2, num_classes=100, what="cifar100")

    train_inputs, train_labels = read("train.bin")
    test_inputs, test_labels = read("test.bin")
    return Dataset(
        name="cifar100",
        train_inputs=train_inputs,
        train_labels=train_labels,
        test_inputs=test_inputs,
        test_labels=test_labels,
        num_classes=100,
    )
