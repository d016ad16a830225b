"""A Dataset cannot contradict itself, and its fingerprint follows its content."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from tiny_files import make

from fedsvp_jax.data.dataset import Column


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_inputs": np.zeros((3, 2), np.int64)}, "uint8 or float32"),
        ({"train_inputs": np.zeros((2, 2, 2, 1), np.uint8)}, "train labels"),
        ({"test_inputs": np.zeros((2, 3, 2, 1), np.uint8)}, "must agree"),
        ({"test_inputs": np.zeros((2, 2, 2, 1), np.float32)}, "must agree"),
        ({"test_inputs": np.full((2, 2, 2, 1), np.nan, np.float32)}, "finite"),
        ({"test_inputs": np.zeros((0, 2, 2, 1), np.uint8)}, "at least one"),
        ({"test_labels": np.array([0, 3], np.int32)}, r"\[0, 3\), got 3"),
        ({"test_labels": np.array([0, -1], np.int32)}, "non-negative"),
        ({"test_labels": np.array([0, 1], np.int64)}, "int32"),
        ({"train_writers": np.array([0, 1], np.int32)}, "train_writers"),
        (
            {"columns": {"sex": Column(np.array([0, 2, 0], np.int32), ("f", "m"))}},
            "column sex has the code 2",
        ),
    ],
)
def test_contradictions_are_refused_by_name(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_fingerprint_is_the_contents_alone() -> None:
    assert make().fingerprint == make(name="other").fingerprint
    assert make().fingerprint == make(train_inputs=make().train_inputs * 1).fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"train_inputs": np.arange(1, 13, dtype=np.uint8).reshape(3, 2, 2, 1)},
        {"train_labels": np.array([1, 0, 2], np.int32)},
        {"test_labels": np.array([1, 2], np.int32)},
        {"num_classes": 4},
        {"train_writers": None},
        {"columns": {}},
        {"columns": {"sex": Column(np.array([0, 1, 0], np.int32), ("f", "x"))}},
    ],
)
def test_fingerprint_changes_with_any_content(changes: dict[str, Any]) -> None:
    assert make(**changes).fingerprint != make().fingerprint


def test_input_range_is_what_a_model_sees() -> None:
    assert make().input_range == (-1.0, 1.0)
    features = np.array([[-2.0, 0.5], [3.0, 0.0], [1.0, 1.0]], np.float32)
    assert make(train_inputs=features, test_inputs=features[:2]).input_range == (-2, 3)


def test_a_dataset_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().name = "other"  # type: ignore[misc]
