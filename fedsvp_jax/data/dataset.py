"""A data set in memory: what every reader returns and everything else takes."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np


class Column(NamedTuple):
    """A named, integer-coded property of every training example (Adult's sex)."""

    codes: np.ndarray  # (n,) int32 in [0, len(categories))
    categories: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Training and test examples on the host.

    Attributes:
      name: the name that it was loaded by.
      train_inputs: (n, *example_shape) uint8 pixels (H, W, C) or float32 features.
      train_labels: (n,) int32 in [0, num_classes).
      test_inputs: (m, *example_shape), the same type as `train_inputs`.
      test_labels: (m,) int32 in [0, num_classes).
      num_classes: number of classes of the task, held by someone or not.
      train_writers: (n,) int32 id of who wrote each training example, or None.
      columns: named properties of the training examples.

    Raises:
      ValueError: shapes, types or values contradict one another.
    """

    name: str
    train_inputs: np.ndarray
    train_labels: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    num_classes: int
    train_writers: np.ndarray | None = None
    columns: Mapping[str, Column] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            inputs = getattr(self, f"{part}_inputs")
            labels = getattr(self, f"{part}_labels")
            self._check_part(part, inputs, labels)
        if self.train_inputs.shape[1:] != self.test_inputs.shape[1:]:
            raise ValueError(
                f"dataset {self.name}: training examples have the shape "
                f"{self.train_inputs.shape[1:]}, test examples "
                f"{self.test_inputs.shape[1:]}; they must agree"
            )
        if self.train_inputs.dtype != self.test_inputs.dtype:
            raise ValueError(
                f"dataset {self.name}: training inputs are {self.train_inputs.dtype}, "
                f"test inputs {self.test_inputs.dtype}; they must agree"
            )
        rows = (len(self.train_labels),)
        if self.train_writers is not None:
            self._check_ids("train_writers", self.train_writers, rows)
        for key, column in self.columns.items():
            self._check_ids(f"column {key}", column.codes, rows)
            if column.codes.max() >= len(column.categories):
                raise ValueError(
                    f"dataset {self.name}: column {key} has the code "
                    f"{column.codes.max()}, but {len(column.categories)} categories"
                )

    def _check_part(self, part: str, inputs: np.ndarray, labels: np.ndarray) -> None:
        if inputs.dtype not in (np.uint8, np.float32):
            raise ValueError(
                f"dataset {self.name}: {part} inputs must be uint8 or float32, "
                f"got {inputs.dtype}"
            )
        if inputs.ndim < 2 or not len(inputs):
            raise ValueError(
                f"dataset {self.name}: {part} inputs must hold at least one example "
                f"along the first axis, got the shape {inputs.shape}"
            )
        if inputs.dtype == np.float32 and not np.isfinite(inputs).all():
            raise ValueError(
                f"dataset {self.name}: {part} inputs hold NaN or infinity; "
                "every feature must be finite"
            )
        self._check_ids(f"{part} labels", labels, (len(inputs),))
        if labels.max() >= self.num_classes:
            raise ValueError(
                f"dataset {self.name}: {part} labels must be in "
                f"[0, {self.num_classes}), got {labels.max()}"
            )

    def _check_ids(self, what: str, ids: np.ndarray, shape: tuple[int, ...]) -> None:
        if ids.dtype != np.int32 or ids.shape != shape or ids.min() < 0:
            raise ValueError(
                f"dataset {self.name}: {what} must be non-negative int32 of the "
                f"shape {shape}, got {ids.dtype} of the shape {ids.shape}, "
                f"smallest {ids.min() if ids.size else 'none'}"
            )

    @property
    def example_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.train_inputs.shape[1:]

    @property
    def input_range(self) -> tuple[float, float]:
        """Smallest and largest value a model sees after `sources.normalize`.

        [-1, 1] for pixels; for features, the training set's own extremes.
        """
        if self.train_inputs.dtype == np.uint8:
            return -1.0, 1.0
        return float(self.train_inputs.min()), float(self.train_inputs.max())

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content: every array's name, type, shape and bytes."""
        arrays = {
            "train_inputs": self.train_inputs,
            "train_labels": self.train_labels,
            "test_inputs": self.test_inputs,
            "test_labels": self.test_labels,
        }
        if self.train_writers is not None:
            arrays["train_writers"] = self.train_writers
        digest = hashlib.sha256(f"num_classes {self.num_classes}".encode())
        for key, column in sorted(self.columns.items()):
            arrays[f"column {key}"] = column.codes
            digest.update(repr((key, column.categories)).encode())
        for key, array in arrays.items():
            digest.update(repr((key, array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


class RowSource(NamedTuple):
    """Labels and writers in memory, training inputs on demand."""

    name: str
    train_labels: np.ndarray  # (n,) int32 in [0, num_classes)
    train_writers: np.ndarray | None  # (n,) int32
    rows: Callable[[np.ndarray], np.ndarray]  # (k,) rows -> (k, *example_shape)
    test_inputs: np.ndarray  # (m, *example_shape)
    test_labels: np.ndarray  # (m,) int32
    num_classes: int
