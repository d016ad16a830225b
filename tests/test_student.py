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
def test_holm_rejects_the_smallest_until_one_is_too_large(
    p_values: list[float], rejected: list[bool]
) -> None:
    assert student.holm(p_values, 0.05) == rejected


def test_adjusted_p_values_are_holms_and_no_number_is_no_probability() -> None:
    assert student.holm_adjusted([0.04, None, 0.01, 0.03]) == [0.06, None, 0.03, 0.06]
    for wrong in (1.5, float("nan")):
        with pytest.raises(ValueError, match="p-values must be between 0 and 1, got"):
            student.holm([0.1, wrong])
