"""Holm's test rejects what Holm's paper rejects."""

import numpy as np
import pytest

from fedsvp_jax.attacks.multiple_tests import holm


@pytest.mark.parametrize(
    ("p_values", "rejected"),
    [
        ([], []),
        ([0.05], [True]),
        ([0.01, 0.04, 0.03, 0.005], [True, False, False, True]),
        # .03 > .05/2 stops it, although .04 ≤ .05/1.
        ([0.04, 0.03], [False, False]),
        ([0.025, 0.05], [True, True]),
        ([0.02, 0.02, 0.02], [False, False, False]),
    ],
)
def test_the_smallest_are_rejected_until_one_is_too_large(
    p_values: list[float], rejected: list[bool]
):
    assert holm(p_values, 0.05) == rejected


def test_true_hypotheses_are_rejected_in_at_most_5_percent_of_families():
    rng = np.random.default_rng(0)
    families = 2000
    wrong = 0
    for _ in range(families):
        true, false = rng.random(5), np.zeros(5)
        wrong += any(holm([*true, *false])[:5])
    assert 0.02 < wrong / families < 0.065


def test_a_number_that_is_no_probability_is_refused():
    with pytest.raises(ValueError, match="p-values must be between 0 and 1, got"):
        holm([0.1, 1.5])
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        holm([0.1], 0.0)
