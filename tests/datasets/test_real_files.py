"""The real data sets in their standard formats: counts, values, first labels.

The folder is named by FEDSVP_DATA. The counts are the publishers' own, except
CIFAR-100's and FEMNIST's, of which the folder holds a part.
"""

import functools
import os
from typing import NamedTuple

import numpy as np
import pytest

from fedsvp_jax.data import sources
from fedsvp_jax.data.dataset import Dataset

FOLDER = os.environ.get("FEDSVP_DATA")
pytestmark = [
    pytest.mark.across("every format, on the files of FEDSVP_DATA"),
    pytest.mark.skipif(
        not FOLDER, reason="FEDSVP_DATA does not name a folder of real data"
    ),
]


class Known(NamedTuple):
    """What is known of a real data set."""

    shape: tuple[int, ...]
    num_train: int
    num_test: int
    num_classes: int
    first_train: list[int]
    first_test: list[int]


KNOWN = {
    "mnist": Known((28, 28, 1), 60_000, 10_000, 10, [5, 0, 4, 1], [7, 2, 1, 0]),
    "cifar10": Known((32, 32, 3), 50_000, 10_000, 10, [6, 9, 9, 4], [3, 8, 8, 0]),
    "cifar100": Known(
        (32, 32, 3), 25_000, 10_000, 100, [19, 29, 0, 11], [49, 33, 72, 51]
    ),
    "femnist": Known(
        (28, 28, 1), 41_199, 4_691, 62, [47, 28, 10, 24], [40, 14, 28, 18]
    ),
    "adult": Known((108,), 32_561, 16_281, 2, [0, 0, 0, 0], [0, 0, 1, 1]),
}


@functools.cache
def load(name: str) -> Dataset:
    return sources.load(name, FOLDER)


@pytest.mark.parametrize("name", list(KNOWN))
def test_counts_shapes_and_first_labels_are_the_publishers(name: str) -> None:
    dataset, known = load(name), KNOWN[name]
    assert dataset.example_shape == known.shape
    assert len(dataset.train_inputs) == known.num_train
    assert len(dataset.test_inputs) == known.num_test
    assert dataset.num_classes == known.num_classes
    np.testing.assert_array_equal(dataset.train_labels[:4], known.first_train)
    np.testing.assert_array_equal(dataset.test_labels[:4], known.first_test)
    assert set(dataset.test_labels.tolist()) == set(range(known.num_classes))


def test_mnist_has_its_published_mean_and_spread() -> None:
    """.1307 and .3081 of [0, 1]: the constants of every MNIST tutorial."""
    pixels = load("mnist").train_inputs / np.float32(255)
    assert pixels.mean(dtype=np.float64) == pytest.approx(0.1307, abs=5e-5)
    assert pixels.std(dtype=np.float64) == pytest.approx(0.3081, abs=5e-5)


def test_cifar10_has_its_published_channel_means() -> None:
    """.4914, .4822, .4465 for red, green, blue: so the planes are in order."""
    means = load("cifar10").train_inputs.mean(axis=(0, 1, 2), dtype=np.float64) / 255
    np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=5e-5)


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
