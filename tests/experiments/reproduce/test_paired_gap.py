"""Paired gaps against numbers worked out by hand."""

import numpy as np
import pytest

from experiments.reproduce.paired_gap import paired_gap


def test_students_interval_of_three_differences() -> None:
    """Differences 1, 2, 3: mean 2, std 1, t_{.975, 2} = 4.302653."""
    gap = paired_gap([11.0, 22.0, 33.0], [10.0, 20.0, 30.0])
    half = 4.302653 / np.sqrt(3)
    assert (gap.num_seeds, gap.mean) == (3, pytest.approx(2.0))
    assert gap.t_interval == pytest.approx((2 - half, 2 + half), rel=1e-6)
    assert gap.contains_zero


def test_pairing_sees_what_the_seeds_spread_hides() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(50, 10, 20)
    gap = paired_gap(base + 1 + rng.normal(0, 0.5, 20), base)
    assert not gap.contains_zero
    low, high = gap.bootstrap_interval
    assert 0 < low < gap.mean < high
    assert gap.bootstrap_interval == pytest.approx(gap.t_interval, abs=0.1)


def test_equal_numbers_give_equal_intervals_and_no_spread_a_point() -> None:
    a, b = [3.0, 1.0, 2.0, 5.0], [1.0, 1.0, 1.0, 1.0]
    assert paired_gap(a, b) == paired_gap(a, b)
    same = paired_gap([2.0, 3.0], [1.0, 2.0])
    assert same.t_interval == same.bootstrap_interval == (1.0, 1.0)


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0]), ([1.0, 2.0], [1.0])])
def test_what_cannot_be_paired_is_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="equally many"):
        paired_gap(a, b)
