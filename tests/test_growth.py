"""What grows costs in proportion, or less: CPU seconds at four small sizes."""

import math

import pytest

from tests import growth

MOST = 1.25  # an exponent; 1 is in proportion, and the rest is what a machine may do
QUICK = [name for name, case in growth.CASES.items() if case.quick]


@pytest.mark.hole
@pytest.mark.parametrize("name", QUICK)
def test_no_cost_grows_faster_than_what_it_is_for(name: str) -> None:
    """The least of three tries: a busy machine can only add seconds."""
    case = growth.CASES[name]
    seconds = [math.inf] * len(case.quick)
    for _ in range(3):
        tried = [growth.measured(case, size) for size in case.quick]
        seconds = [min(both) for both in zip(seconds, tried, strict=True)]
        if growth.exponent(case.quick, seconds) <= MOST:
            return
    pytest.fail(f"{name} by {case.by}: {dict(zip(case.quick, seconds, strict=True))}")


def test_an_exponent_is_that_of_a_power() -> None:
    sizes = (10, 20, 40, 80)
    assert growth.exponent(sizes, [size**2 / 100 for size in sizes]) == pytest.approx(2)
