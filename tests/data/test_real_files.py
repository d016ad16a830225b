"""The real data sets in their standard formats: counts, values, first labels.

The folder is named by FEDSVP_DATA. The counts are the publishers' own, except
CIFAR-100's and FEMNIST's, of which the folder holds a part.
"""

import functools
import os
from typing import NamedTuple

import numpy as np
import pytest

from fedsvp_jax.data import attributes, partition, sources, train_validation
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


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100", "femnist"])
def test_images_use_the_whole_range_of_a_byte(name: str) -> None:
    dataset = load(name)
    assert dataset.train_inputs.dtype == np.uint8
    assert (dataset.train_inputs.min(), dataset.train_inputs.max()) == (0, 255)


def test_mnist_has_its_published_mean_and_spread() -> None:
    """.1307 and .3081 of [0, 1]: the constants of every MNIST tutorial."""
    pixels = load("mnist").train_inputs / np.float32(255)
    assert pixels.mean(dtype=np.float64) == pytest.approx(0.1307, abs=5e-5)
    assert pixels.std(dtype=np.float64) == pytest.approx(0.3081, abs=5e-5)


def test_cifar10_has_its_published_channel_means() -> None:
    """.4914, .4822, .4465 for red, green, blue: so the planes are in order."""
    means = load("cifar10").train_inputs.mean(axis=(0, 1, 2), dtype=np.float64) / 255
    np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=5e-5)


def test_cifar10_images_are_upright_and_smooth() -> None:
    """A wrong order of axes would make neighbours as different as strangers."""
    pixels = load("cifar10").train_inputs[:500].astype(np.float64)
    for axis in (1, 2):
        assert np.abs(np.diff(pixels, axis=axis)).mean() < 0.3 * pixels.std()


def test_cifar_classes_are_balanced() -> None:
    np.testing.assert_array_equal(np.bincount(load("cifar10").train_labels), 5000)
    np.testing.assert_array_equal(np.bincount(load("cifar100").test_labels), 100)


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


def test_adult_features_are_about_as_large_as_standardised_ones() -> None:
    numbers = load("adult").train_inputs[:, :6]
    assert (np.abs(numbers.mean(0)) < 0.5).all()
    assert ((numbers.std(0) > 0.5) & (numbers.std(0) < 1.5)).all()


def test_the_published_federation_of_cifar10_can_be_built() -> None:
    labels = load("cifar10").train_labels
    found = attributes.class_private(labels, 5, num_classes=10)
    split = train_validation.make_split(
        partition.paper(labels, 100, seed=0),
        found.ids,
        private_attribute=found.private,
        num_hbc=10,
        seed=0,
    )
    np.testing.assert_array_equal(split.num_train, [2000] * 90 + [1800] * 10)


def test_a_federation_of_femnist_writers_can_be_built() -> None:
    dataset = load("femnist")
    assert dataset.train_writers is not None
    found = attributes.class_private(dataset.train_labels, 5, num_classes=62)
    split = train_validation.make_split(
        partition.by_writer(dataset.train_writers, 100, min_examples=50, seed=0),
        found.ids,
        private_attribute=found.private,
        num_hbc=10,
        seed=0,
    )
    assert int(split.num_train.min()) >= 35


def test_adult_can_be_divided_by_sex() -> None:
    dataset = load("adult")
    found = attributes.from_column(dataset.columns["sex"], "Female")
    split = train_validation.make_split(
        partition.iid(len(dataset.train_labels), 20, seed=0),
        found.ids,
        private_attribute=found.private,
        num_hbc=5,
        seed=0,
    )
    curious = np.concatenate(
        [np.asarray(split.train[i])[: int(split.num_train[i])] for i in range(15, 20)]
    )
    assert (dataset.columns["sex"].codes[curious] == 1).all()
