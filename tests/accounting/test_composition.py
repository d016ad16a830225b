"""ε at the ends of the numbers, and the search for the most uploads."""

import math

import pytest

from fedsvp_jax.accounting.composition import composed_epsilon, largest_count
from fedsvp_jax.mechanisms.calibration import (
    analytic_multiplier,
    gaussian_epsilon_bound,
)


@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-5, 0.5, 0.999])
def test_the_closed_form_lies_above_the_exact_epsilon_and_near_it(delta: float) -> None:
    for precision in (1e-8, 1e-2, 1.0, 1e3, 1e6):
        exact = composed_epsilon("gdp", precision, delta)
        bound = gaussian_epsilon_bound(precision, delta)
        assert exact <= bound * (1 + 1e-9)
    assert bound == pytest.approx(exact, rel=1e-5)  # at precision 1e6


@pytest.mark.parametrize("precision", [1e18, 1e30, 1e300])
def test_a_huge_epsilon_is_never_below_what_it_must_be(precision: float) -> None:
    """The exact value, computed in floating point, lay 1e-7 below p/2 at 1e18."""
    assert composed_epsilon("gdp", precision, 1e-5) >= precision / 2


def test_almost_no_loss_warns_of_nothing() -> None:
    for precision in (1e-40, 1e-20, 1e-13, 1e-12, 4e-12, 1e-11):
        assert 0 <= composed_epsilon("gdp", precision, 1e-12) < 1e-3


@pytest.mark.parametrize("epsilon", [1e4, 5.1e5, 1e9, 1e30])
def test_the_analytic_multiplier_of_a_huge_epsilon_keeps_it(epsilon: float) -> None:
    z = float(analytic_multiplier(epsilon, 1e-5))
    spent = composed_epsilon("gdp", z**-2, 1e-5)
    assert spent == pytest.approx(epsilon, rel=1e-5) and spent <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("true", [0, 1, 2, 3, 7, 8, 9, 99, 100, 101])
def test_the_largest_count_is_found_and_is_not_above_the_most(true: int) -> None:
    assert largest_count(lambda count: count <= true, 100) == min(true, 100)


def test_few_counts_are_tried_however_many_are_kept() -> None:
    tried = []

    def keeps(count: int) -> bool:
        tried.append(count)
        return count <= 10**9

    assert largest_count(keeps, 2**31) == 10**9
    assert len(tried) < 70 and math.isfinite(max(tried))
