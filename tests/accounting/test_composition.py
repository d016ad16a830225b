"""ε at the ends of the numbers."""

import math

import pytest

from fedsvp_jax.accounting.composition import composed_epsilon
from fedsvp_jax.mechanisms.calibration import gaussian_epsilon_bound


@pytest.mark.parametrize("precision", [1e18, 1e30, 1e300])
def test_a_huge_epsilon_is_never_below_what_it_must_be(precision: float) -> None:
    """The exact value, computed in floating point, lay 1e-7 below p/2 at 1e18."""
    assert composed_epsilon("gdp", precision, 1e-5) >= precision / 2


def test_the_exact_epsilon_is_taken_up_to_both_ends_of_its_range() -> None:
    """At precision 1e-12 δ is 4e-7 at ε = 0; the bound beyond that end is above 0."""
    assert composed_epsilon("gdp", 1e-12, 1e-5) == 0
    assert composed_epsilon("gdp", 1e6, 1e-5) < gaussian_epsilon_bound(1e6, 1e-5)
    for precision in (1e-40, 1e-20, 1e-13, 4e-12, 1e-11):  # without a warning
        assert 0 <= composed_epsilon("gdp", precision, 1e-12) < 1e-3


@pytest.mark.hole
@pytest.mark.parametrize("method", ["rdp", "pld", "gdp"])
def test_no_precision_overflows_an_accountant(method: str) -> None:
    """PLD ended with OverflowError where an upload's ε is in the hundreds."""
    spent = [
        composed_epsilon(method, one, 1e-5, responses=[(5, 0.5)])
        for one in (1.0, 1e2, 1e3, 1e4, 1e6, 1e9, 1e12)
    ]
    assert spent[0] > 0 and spent == sorted(spent) and math.isfinite(spent[-1])
    exact = composed_epsilon("gdp", 300.0, 1e-5)
    assert composed_epsilon(method, 300.0, 1e-5) >= exact > 100
