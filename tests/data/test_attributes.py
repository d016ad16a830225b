"""Attributes divide the examples into disjoint, named groups, one of them private."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsvp_jax.data import attributes

LABELS = np.arange(40, dtype=np.int32) % 10


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (2, ("class 5", "classes 0,1,2,3,4,6,7,8,9")),
        (3, ("classes 5,6,7,8", "classes 0,1,9", "classes 2,3,4")),
    ],
)
def test_groups_of_classes_start_at_the_private_one(
    count: int, names: tuple[str, ...]
) -> None:
    found = attributes.class_private(LABELS, 5, num_classes=10, num_attributes=count)
    assert (found.private, found.names, found.ids.dtype) == (0, names, np.int32)
    np.testing.assert_array_equal(found.ids[LABELS == 5], 0)


@given(num_classes=st.integers(3, 62), data=st.data())
def test_more_than_two_groups_divide_the_classes_evenly(
    num_classes: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(3, min(6, num_classes)))
    private = data.draw(st.integers(0, num_classes - 1))
    found = attributes.class_private(
        np.arange(num_classes), private, num_classes=num_classes, num_attributes=count
    )
    sizes = np.bincount(found.ids, minlength=count)
    assert sizes.sum() == num_classes and len(found.names) == count
    assert sizes.max() - sizes.min() <= 1 and found.ids[private] == found.private


def test_impossible_class_attributes_are_refused() -> None:
    for private, count, message in (
        (10, 2, "private_attribute must be one of the 10 classes, 0 to 9; got 10"),
        (5, 1, "num_attributes must be between 2 and 10, the number of classes; got 1"),
        (5, 11, "num_attributes"),
    ):
        told = {"num_classes": 10, "num_attributes": count}
        with pytest.raises(ValueError, match=message):
            attributes.class_private(LABELS, private, **told)
