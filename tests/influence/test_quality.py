"""Recall, precision, accuracy and F1."""

import math

import numpy as np

from fedsvp_jax import influence


def test_the_four_shares_by_hand():
    corrupted = np.array([1, 1, 1, 0, 0, 0, 0, 0], bool)
    rejected = np.array([1, 1, 0, 1, 0, 0, 0, 0], bool)
    found = influence.filtration(rejected, corrupted)
    np.testing.assert_allclose(found, [2 / 3, 2 / 3, 6 / 8, 2 / 3])


def test_without_anybody_rejected_or_corrupted_there_is_no_share():
    nobody = np.zeros(4, bool)
    found = influence.filtration(nobody, nobody)
    assert math.isnan(found.recall) and math.isnan(found.precision)
    assert found.accuracy == 1.0 and math.isnan(found.f1)
