"""Tiny files of every format come back as they were written."""

from pathlib import Path

import numpy as np
import pytest
import tiny_files

from fedsvp_jax.data import sources
from fedsvp_jax.data.datasets import adult

FOLDERS = {"fashion_mnist": "fashion-mnist", "cifar10": "cifar-10-batches-bin"}
FOLDERS |= {"cifar100": "cifar-100-binary", "npz": "data.npz"}


@pytest.mark.parametrize("name", list(tiny_files.WRITERS))
def test_data_dir_is_the_folder_or_its_parent(name: str, tmp_path: Path) -> None:
    first = sources.load(name, tiny_files.WRITERS[name](tmp_path))
    second = sources.load(name, str(tmp_path / FOLDERS.get(name, name)))
    assert first.name == name and first.fingerprint == second.fingerprint


@pytest.mark.parametrize(
    ("name", "classes", "train", "test"),
    [
        ("cifar100", 100, [99, 0, 7], [3, 4]),  # the fine labels
        *((name, 10, range(6), range(4)) for name in ("mnist", "fashion_mnist")),
        ("emnist", 62, range(6), range(4)),
    ],
)
def test_images_and_labels_are_those_of_the_files(
    name: str, classes: int, train: list[int], test: list[int], tmp_path: Path
) -> None:
    dataset = sources.load(name, tiny_files.WRITERS[name](tmp_path))
    np.testing.assert_array_equal(dataset.train_labels, train)
    np.testing.assert_array_equal(dataset.test_labels, test)
    stored = tiny_files.images(len(train), *((32, 3) if name[:2] == "ci" else (28, 1)))
    if name == "emnist":  # which is turned upright
        stored = stored.transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(dataset.train_inputs, stored)
    assert dataset.num_classes == classes


def test_cifar10_joins_its_five_batches_in_order(tmp_path: Path) -> None:
    dataset = sources.load("cifar10", tiny_files.write_cifar10(tmp_path))
    expected = [tiny_files.images(4, 32, 3, seed=batch) for batch in range(5)]
    np.testing.assert_array_equal(dataset.train_inputs, np.concatenate(expected))
    np.testing.assert_array_equal(
        dataset.train_labels, np.concatenate([np.arange(4) + b for b in range(5)])
    )
    np.testing.assert_array_equal(
        dataset.test_inputs, tiny_files.images(3, 32, 3, seed=9)
    )
    np.testing.assert_array_equal(dataset.test_labels, [9, 0, 1])
    assert dataset.num_classes == 10


def test_femnist_joins_its_files_and_numbers_writers_by_name(tmp_path: Path) -> None:
    dataset = sources.load("femnist", tiny_files.write_femnist(tmp_path))
    stored = [
        tiny_files.images(n, 28, 1, seed=seed) for n, seed in ((2, 0), (1, 1), (3, 7))
    ]
    np.testing.assert_array_equal(dataset.train_inputs, np.concatenate(stored))
    np.testing.assert_array_equal(dataset.train_labels, [0, 61, 5, 1, 2, 3])
    assert dataset.train_writers is not None
    np.testing.assert_array_equal(dataset.train_writers, [1, 1, 0, 2, 2, 2])
    np.testing.assert_array_equal(dataset.test_labels, [4, 6])
    assert dataset.num_classes == 62


def test_npz_codes_writers_and_columns_by_sorted_value(tmp_path: Path) -> None:
    dataset = sources.load("npz", tiny_files.write_npz(tmp_path))
    arrays = tiny_files.npz_arrays()
    np.testing.assert_array_equal(dataset.train_inputs[..., 0], arrays["x_train"])
    assert dataset.num_classes == 4  # 3 is in the test labels alone
    assert dataset.train_writers is not None
    np.testing.assert_array_equal(dataset.train_writers, [0, 1, 0, 2, 1])
    assert dataset.columns["hand"].categories == ("left", "right")
    np.testing.assert_array_equal(dataset.columns["hand"].codes, [0, 1, 0, 0, 1])


def test_adult_numbers_are_clamped_and_scaled_by_public_constants(
    tmp_path: Path,
) -> None:
    rows = tiny_files.adult_rows()
    for name, value in (("age", "12"), ("capital-gain", "1e9")):
        rows[0][tiny_files.ADULT_HEADER.index(name)] = value
    tiny_files.write_csv(tmp_path / "adult.csv", rows, tiny_files.ADULT_HEADER)
    dataset = sources.load("adult", tmp_path)
    both = np.concatenate([dataset.train_inputs, dataset.test_inputs])
    expected = (np.array([17, 21, 22, 23, 24, 25]) - 40) / 15
    np.testing.assert_allclose(both[:, 0], expected, rtol=1e-6)
    np.testing.assert_array_equal(both[1:, 3:5], 0)  # no gain, no loss
    assert both[0, 3] == pytest.approx(np.log(100_000) / 3)
    assert (len(dataset.train_labels), len(dataset.test_labels)) == (4, 2)


@pytest.mark.hole
def test_one_record_of_adult_leaves_the_features_of_all_others(
    tmp_path: Path,
) -> None:
    changes = {
        "age": "90",
        "fnlwgt": "1000000",
        "education-num": "16",
        "capital-gain": "99999",
        "capital-loss": "4000",
        "hours-per-week": "99",
        "workclass": "Never-worked",
        "education": "Doctorate",
        "native-country": "Holand-Netherlands",
        "race": "Other",
        "sex": "Male",
    }
    rows = tiny_files.adult_rows()
    tiny_files.write_csv(tmp_path / "a" / "adult.csv", rows, tiny_files.ADULT_HEADER)
    for name, value in changes.items():
        rows[2][tiny_files.ADULT_HEADER.index(name)] = value
    tiny_files.write_csv(tmp_path / "b" / "adult.csv", rows, tiny_files.ADULT_HEADER)
    ours, neighbour = (sources.load("adult", tmp_path / name) for name in "ab")
    assert (ours.train_inputs[2] != neighbour.train_inputs[2]).any()
    others = np.array([0, 1, 3])
    np.testing.assert_array_equal(
        ours.train_inputs[others], neighbour.train_inputs[others]
    )
    np.testing.assert_array_equal(ours.test_inputs, neighbour.test_inputs)
    for name, column in ours.columns.items():
        assert column.categories == neighbour.columns[name].categories
        np.testing.assert_array_equal(
            column.codes[others], neighbour.columns[name].codes[others]
        )


def test_adult_one_hot_parts_sum_to_one_and_name_columns(tmp_path: Path) -> None:
    dataset = sources.load("adult", tiny_files.write_adult(tmp_path))
    for name, categories in adult.CATEGORIES.items():
        assert list(categories) == sorted(categories), name
    sizes = [len(categories) for categories in adult.CATEGORIES.values()]
    assert sizes == [9, 16, 7, 15, 6, 5, 2, 42]  # "?" in three of adult.names' lists
    assert dataset.example_shape == (6 + sum(sizes),) == (108,)
    workclass = dataset.test_inputs[:, 6 : 6 + 9]
    np.testing.assert_array_equal(np.flatnonzero(workclass[0]), [4])  # Private
    np.testing.assert_array_equal(np.flatnonzero(workclass[1]), [0])  # ?
    np.testing.assert_array_equal(dataset.train_inputs[:, 6:].sum(1), 8)
    assert dataset.columns["workclass"].categories[:2] == ("?", "Federal-gov")
    assert dataset.columns["sex"].categories == ("Female", "Male")
    np.testing.assert_array_equal(dataset.columns["sex"].codes, [0, 1, 0, 1])
    np.testing.assert_array_equal(dataset.test_columns["sex"].codes, [0, 1])
    np.testing.assert_array_equal(dataset.train_labels, [0, 1, 0, 0])
    np.testing.assert_array_equal(dataset.test_labels, [1, 0])


def test_digits_have_a_fixed_stratified_split() -> None:
    dataset = sources.load("digits")
    assert dataset.train_inputs.shape == (1442, 8, 8, 1)
    assert dataset.test_inputs.shape == (355, 8, 8, 1)
    assert dataset.train_inputs.dtype == np.uint8
    assert (dataset.train_inputs.min(), dataset.train_inputs.max()) == (0, 255)
    for part in (dataset.train_labels, dataset.test_labels):
        counts = np.bincount(part, minlength=10)
        assert counts.min() > 0.09 * len(part)
    fingerprint = "e5dcf6c95573"
    assert dataset.fingerprint.startswith(fingerprint)
