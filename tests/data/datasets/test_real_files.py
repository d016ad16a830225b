"""The real data sets in their standard formats: counts, values, first labels.

Slow: they take half a minute to unpack and to read, and test_formats.py shows what the
readers make of each format. The folder is named by FEDSVP_DATA. The counts are the
publishers' own, except CIFAR-100's and FEMNIST's, of which the folder holds a part.
"""

import functools
import os
from typing import Any

import numpy as np
import pytest

from fedsvp_jax.data import sources
from fedsvp_jax.data.dataset import Dataset

FOLDER = os.environ.get("FEDSVP_DATA")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not FOLDER, reason="FEDSVP_DATA does not name a folder of real data"
    ),
]


# Shape, examples for training and test, classes, their first labels.
KNOWN: dict[str, Any] = {
    "mnist": ((28, 28, 1), 60_000, 10_000, 10, [5, 0, 4, 1], [7, 2, 1, 0]),
    "cifar10": ((32, 32, 3), 50_000, 10_000, 10, [6, 9, 9, 4], [3, 8, 8, 0]),
    "cifar100": ((32, 32, 3), 25_000, 10_000, 100, [19, 29, 0, 11], [49, 33, 72, 51]),
    "femnist": ((28, 28, 1), 41_199, 4_691, 62, [47, 28, 10, 24], [40, 14, 28, 18]),
    "adult": ((108,), 32_561, 16_281, 2, [0, 0, 0, 0], [0, 0, 1, 1]),
}


@functools.cache
def load(name: str) -> Dataset:
    return sources.load(name, FOLDER)


@pytest.mark.parametrize("name", list(KNOWN))
def test_counts_shapes_and_first_labels_are_the_publishers(name: str) -> None:
    data = load(name)
    shape, num_train, num_test, classes, first_train, first_test = KNOWN[name]
    assert data.example_shape == shape and data.num_classes == classes
    assert (len(data.train_inputs), len(data.test_inputs)) == (num_train, num_test)
    np.testing.assert_array_equal(data.train_labels[:4], first_train)
    np.testing.assert_array_equal(data.test_labels[:4], first_test)
    assert set(data.test_labels.tolist()) == set(range(classes))


@pytest.mark.parametrize(
    ("name", "means"), [("mnist", [0.1307]), ("cifar10", [0.4914, 0.4822, 0.4465])]
)
def test_the_mean_of_each_channel_is_the_published_one(
    name: str, means: list[float]
) -> None:
    """The constants of every tutorial: so the planes are in order."""
    found = load(name).train_inputs.mean(axis=(0, 1, 2), dtype=np.float64) / 255
    np.testing.assert_allclose(found, means, atol=5e-5)


def test_femnist_writers_are_numbered_without_gaps() -> None:
    dataset = load("femnist")
    assert dataset.train_writers is not None
    counts = np.bincount(dataset.train_writers)
    assert len(counts) == 300
    assert counts.min() >= 1
    # White paper, dark ink: LEAF's polarity is the reverse of EMNIST's.
    assert dataset.train_inputs[:, 0, 0, 0].mean() > 250


def test_adult_columns_have_the_published_shares() -> None:
    """UCI's training file: 21,790 men of 32,561; 24.08% earn over 50K."""
    dataset = load("adult")
    sex = dataset.columns["sex"]
    assert sex.categories == ("Female", "Male")
    assert int(sex.codes.sum()) == 21_790
    assert int(dataset.train_labels.sum()) == 7_841
