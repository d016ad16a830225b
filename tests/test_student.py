"""Student's interval, against quantiles of a printed table."""

import math

import pytest

from fedsvp_jax import student


@pytest.mark.parametrize(("count", "quantile"), [(2, 12.7062), (3, 4.30265)])
def test_half_the_interval_is_the_quantile_times_the_standard_error(
    count: int, quantile: float
) -> None:
    assert student.half_width(0.1, count) == pytest.approx(
        quantile * 0.1 / math.sqrt(count), rel=1e-5
    )


def test_the_interval_lies_about_the_mean() -> None:
    """Values 1, 2, 3: mean 2, std 1."""
    half = 4.3026527 / math.sqrt(3)
    assert student.interval([1.0, 2.0, 3.0]) == pytest.approx((2 - half, 2 + half))
