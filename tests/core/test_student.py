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


def test_two_seeds_have_the_p_of_cauchys_distribution() -> None:
    """Gaps .1 and .3: t = 2 with one degree of freedom; seed 7 has no partner."""
    found = student.paired_p({0: 0.9, 1: 0.9, 7: 0.1}, {0: 0.8, 1: 0.6})
    assert found == pytest.approx(1 - 2 * math.atan(2) / math.pi)


@pytest.mark.hole
@pytest.mark.parametrize("gaps", [[], [0.1], [0.4, 0.4, 0.4], [0.1, 0.1 + 6e-8, 0.1]])
def test_differences_without_a_spread_have_no_p(gaps: list[float]) -> None:
    """Equal gaps, of which one was rounded, had p = 6e-33."""
    one = {seed: 0.9 - 0.1 * seed for seed in range(len(gaps))}
    other = {seed: one[seed] - gap for seed, gap in enumerate(gaps)}
    assert student.paired_p(one, other) is None


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
        ([0.04, None, 0.01, 0.03], [0.06, None, 0.03, 0.06]),  # None is not counted
    ],
)
def test_p_values_are_adjusted_until_one_is_too_large(
    p_values: list[float | None], adjusted: list[float | None]
) -> None:
    assert student.holm_adjusted(p_values) == pytest.approx(adjusted)
