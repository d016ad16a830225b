"""A data set whose training inputs are read by row, and need not be in memory."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class RowSource(NamedTuple):
    """Labels and writers in memory, training inputs on demand."""

    name: str
    train_labels: np.ndarray  # (n,) int32 in [0, num_classes)
    train_writers: np.ndarray | None  # (n,) int32
    rows: Callable[[np.ndarray], np.ndarray]  # (k,) rows -> (k, *example_shape)
    test_inputs: np.ndarray  # (m, *example_shape)
    test_labels: np.ndarray  # (m,) int32
    num_classes: int
