"""Student's interval, against quantiles of a printed table."""

import math

import pytest

from fedsvp_jax.core import student


@pytest.mark.parametrize(("count", "quantile"), [(2, 12.7062), (3, 4.30265)])
def test_half_the_interval_is_the_quantile_times_the_standard_error(
    count: int, quantile: float
) -> None:
    assert student.half_width(0.1, count) == pytest.approx(
        quantile * 0.1 / math.sqrt(count), rel=1e-5
    )


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([], []),
        ([0.05], [0.05]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        # .03 > .05/2 stops it, although .04 ≤ .05/1.
        ([0.04, 0.03], [0.06, 0.06]),
        ([0.5, 0.8], [1, 1]),
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
    ],
)
def test_p_values_are_adjusted_until_one_is_too_large(
    p_values: list[float], adjusted: list[float]
) -> None:
    assert student.holm_adjusted(p_values) == pytest.approx(adjusted)
