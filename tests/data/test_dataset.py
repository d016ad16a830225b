"""A Dataset cannot contradict itself, and its fingerprint follows its content."""

from typing import Any

import numpy as np
import pytest
from tiny_files import make

from fedsvp_jax.data.dataset import Column


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_inputs": np.zeros((3, 2), int)}, "pixels or floats, got int64"),
        ({"train_inputs": np.zeros((2, 2, 2, 1), np.uint8)}, "train labels"),
        ({"test_inputs": np.zeros((2, 3, 2, 1), np.uint8)}, "must agree"),
        ({"test_inputs": np.full((2, 2, 2, 1), np.nan, np.float32)}, "NaN or infinity"),
        ({"test_inputs": np.zeros((0, 2, 2, 1), np.uint8)}, "at least one"),
        ({"test_labels": np.array([0, -1], np.int32)}, "from 0 to 2.*got -1"),
        ({"test_labels": np.array([0, 2**32])}, "from 0 to 2.*got 4294967296"),
        ({"test_labels": np.array([0.0, 0.5])}, "whole numbers, got float64"),
        ({"test_labels": np.array(["a", "b"])}, "whole numbers, got <U1"),
        ({"train_writers": np.array([0, 1], np.int32)}, "train_writers"),
        (
            {"columns": {"sex": Column(np.array([0, 2, 0], np.int32), ("f", "m"))}},
            "column sex must be from 0 to 1, got 2",
        ),
        (
            {"test_columns": {"sex": Column(np.array([0, 2], np.int32), ("f", "m"))}},
            "test column sex must be from 0 to 1, got 2",
        ),
        (
            {"test_columns": {"sex": Column(np.array([0, 1], np.int32), ("f", "x"))}},
            "test column sex must have the categories of column sex",
        ),
    ],
)
def test_contradictions_are_refused_by_name(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_whole_numbers_of_any_type_are_labels_codes_and_writers(dtype: type) -> None:
    plain, sex = make(), make().columns["sex"]
    given = make(
        train_labels=plain.train_labels.astype(dtype),
        test_labels=plain.test_labels.astype(dtype),
        train_writers=np.asarray(plain.train_writers).astype(dtype),
        columns={"sex": sex._replace(codes=sex.codes.astype(dtype))},
    )
    assert given.train_labels.dtype == given.columns["sex"].codes.dtype == np.int32
    assert given.fingerprint == plain.fingerprint == make(name="other").fingerprint


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_finite_floats_of_any_precision_are_features(dtype: type) -> None:
    """U5: float64, numpy's default, was refused."""
    inputs = np.zeros((4, 3), dtype)
    named = {"test_labels": np.zeros(4), "test_inputs": inputs, "columns": {}}
    given = make(train_inputs=inputs[:3], **named)
    assert given.train_inputs.dtype == given.test_inputs.dtype == np.float32
    inputs[3, 2], inputs[3, 0] = np.nan, np.finfo(dtype).max
    inputs[3, 0] *= np.inf if dtype == np.float16 else 1
    with pytest.raises(
        ValueError, match=r"\(2 of 12 values, first at index \[3, 0\]\)"
    ):
        make(train_inputs=inputs[:3], **named)


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
        {"test_columns": {"sex": Column(np.array([0, 1], np.int32), ("f", "m"))}},
    ],
)
def test_fingerprint_changes_with_any_content(changes: dict[str, Any]) -> None:
    assert make(**changes).fingerprint != make().fingerprint


@pytest.mark.hole
def test_lists_of_numbers_are_arrays() -> None:
    """ "'list' object has no attribute 'dtype'"."""
    plain = make()
    rows = np.arange(6.0).reshape(3, 2)
    changes = {"test_inputs": rows[:2], "columns": {}, "test_columns": {}}
    arrays = make(train_inputs=rows, **changes)
    lists = make(
        **changes | {"test_inputs": rows[:2].tolist()},
        train_inputs=rows.tolist(),
        train_labels=plain.train_labels.tolist(),
        test_labels=plain.test_labels.tolist(),
        train_writers=np.asarray(plain.train_writers).tolist(),
    )
    assert lists.fingerprint == arrays.fingerprint
    with pytest.raises(ValueError, match="train labels must be whole numbers, got <U1"):
        make(train_labels=["a", "b", "c"])


@pytest.mark.hole
def test_a_frame_of_numbers_is_features() -> None:
    """It ended in an AttributeError."""
    pandas = pytest.importorskip("pandas")
    made = make()
    rows = {
        f"{part}_inputs": np.arange(2.0 * len(getattr(made, f"{part}_inputs")))
        for part in ("train", "test")
    }
    framed = make(**{n: pandas.DataFrame(v.reshape(-1, 2)) for n, v in rows.items()})
    assert framed.train_inputs.dtype == np.float32 and framed.train_inputs.ndim == 2
