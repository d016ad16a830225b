"""A data set that TFDS's own writer wrote comes back without TensorFlow."""

import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
import tiny_files
from tfds_builders import (
    NUM_CLASSES,
    SIZES,
    FiledScans,
    RegisteredScans,
    TrainOnly,
    Unsupervised,
    ValidatedRows,
)

from fedsvp_jax.data import sources
from fedsvp_jax.data.dataset import Dataset


def write(builder: type, data_dir: Path) -> Path:
    tfds.display_progress_bar(False)
    builder(data_dir=data_dir, file_format="array_record").download_and_prepare()
    return data_dir


def check_scans(dataset: Dataset) -> None:
    """The examples that were written, in the order of TFDS's own shuffle."""
    assert dataset.num_classes == NUM_CLASSES  # 3 is in the features, in no example
    parts = {
        "train": (dataset.train_inputs, dataset.train_labels),
        "test": (dataset.test_inputs, dataset.test_labels),
    }
    for split, (inputs, labels) in parts.items():
        assert inputs.dtype == np.uint8
        written = tiny_files.images(SIZES[split], 5, 1)
        position = [
            int(np.flatnonzero((written == image).all(axis=(1, 2, 3)))[0])
            for image in inputs
        ]
        assert sorted(position) == list(range(SIZES[split]))
        np.testing.assert_array_equal(labels, np.array(position) % 3)


@pytest.mark.parametrize(
    ("builder", "name"),
    [
        (RegisteredScans, "registered_scans"),
        (RegisteredScans, "registered_scans:1.0.0"),
        (FiledScans, "filed_scans"),
    ],
)
def test_a_prepared_data_set_is_read_without_tensorflow(
    builder: type, name: str, tmp_path: Path
) -> None:
    """Which the test environment does not have."""
    write(builder, tmp_path)
    dataset = sources.load(f"tfds:{name}", tmp_path)
    assert dataset.name == f"tfds:{name}"
    check_scans(dataset)
    assert dataset.fingerprint == sources.load(f"tfds:{name}", tmp_path).fingerprint
    assert "tensorflow" not in sys.modules


def test_validation_stands_in_for_test_and_labels_count_the_classes(
    tmp_path: Path,
) -> None:
    dataset = sources.load("tfds:validated_rows", write(ValidatedRows, tmp_path))
    assert dataset.num_classes == 5
    assert dataset.train_inputs.dtype == np.float32
    np.testing.assert_array_equal(dataset.test_inputs[:, 0], dataset.test_labels)


@pytest.mark.parametrize(
    ("builder", "name", "message"),
    [
        (Unsupervised, "unsupervised", "supervised_keys None"),
        (
            TrainOnly,
            "train_only",
            "has the splits train; it must have train and one of",
        ),
    ],
)
def test_what_is_no_classification_task_is_refused(
    builder: type, name: str, message: str, tmp_path: Path
) -> None:
    write(builder, tmp_path)
    with pytest.raises(ValueError, match=message):
        sources.load(f"tfds:{name}", tmp_path)


@pytest.mark.parametrize("name", ["no_such_data_set", "mnist", "registered_scans"])
def test_what_is_not_prepared_is_refused_and_not_downloaded(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"tfds:{name} .* was expected") as caught:
        sources.load(f"tfds:{name}", tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", [None, 0.0, 0.3, 0.7])
def test_a_truncated_or_missing_array_record_is_refused(
    kept: float | None, tmp_path: Path
) -> None:
    write(FiledScans, tmp_path)
    (path,) = (tmp_path / "filed_scans").glob("*/*train.array_record*")
    raw = path.read_bytes()
    path.unlink()
    if kept is not None:
        path.write_bytes(raw[: int(kept * len(raw))])
    with pytest.raises(ValueError, match="filed_scans") as caught:
        sources.load("tfds:filed_scans", tmp_path)
    assert "\n" not in str(caught.value)
