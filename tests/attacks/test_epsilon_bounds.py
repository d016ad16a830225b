"""Lower bounds of ε stay under what is true, and p-values follow them."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.attacks.epsilon_bounds import (
    gaussian_bound,
    lower_bounds,
    p_value,
)

DELTA = 1e-5


@pytest.mark.parametrize("mu", [0.0, 0.2, 1.0, 3.0])
def test_bounds_of_known_gaussians_stay_under_the_truth(mu: float):
    truth = composed_epsilon("gdp", mu**2, DELTA)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        inside, outside = rng.normal(mu / 2, 1, 4000), rng.normal(-mu / 2, 1, 4000)
        found = lower_bounds(inside, outside, delta=DELTA, equal_noise=True, seed=seed)
        assert set(found) == {"clopper_pearson", "gaussian"}
        assert max(found.values()) <= truth
        bare = lower_bounds(inside, outside, delta=0.0, equal_noise=True)
        assert set(bare) == {"clopper_pearson"}  # which needs no δ
        if mu >= 1:
            assert max(found.values()) > 0.7 * truth
            assert min(found.values()) > 0.05 * truth


def _scale_epsilon(std: float, delta: float) -> float:
    """The true ε at δ of N(0, 1) against N(0, std²), std < 1, either way round.

    The log likelihood ratio ln(std) + x²(std⁻² − 1)/2 exceeds ε where x² > t.
    """
    rate = (std**-2 - 1) / 2

    def excess(epsilon: float) -> float:
        above = (epsilon - math.log(std)) / rate
        below = (-epsilon - math.log(std)) / rate
        square = scipy.stats.chi2(1)
        forth = square.sf(above) - math.exp(epsilon) * square.sf(above / std**2)
        back = square.cdf(below / std**2) - math.exp(epsilon) * square.cdf(below)
        return max(forth, back) - delta

    return scipy.optimize.brentq(excess, 0.0, 50.0)


@pytest.mark.hole
def test_where_the_noise_scale_differs_the_gaussian_bound_exceeds_the_truth():
    std, delta, games = 0.5, 0.3, 400_000
    truth = _scale_epsilon(std, delta)
    rng = np.random.default_rng(0)
    inside, outside = (
        math.log(std) + np.square(scale * rng.normal(size=games)) * (std**-2 - 1) / 2
        for scale in (1.0, std)
    )
    assert gaussian_bound(inside, outside, delta=delta, significance=0.01) > truth
    bounds = lower_bounds(inside, outside, delta=delta, equal_noise=False)
    assert set(bounds) == {"clopper_pearson"} and max(bounds.values()) <= truth


@pytest.mark.parametrize(
    ("claim", "expected"), [(1.0, 0.05 / 2**14), (3.0, 0.05 / 4), (4.5, 1.0)]
)
def test_a_p_value_is_the_last_of_the_significances_that_contradict(
    claim: float, expected: float
):
    # Contradicts 3 down to .05/4, 4.5 never, and 1 always.
    def below(significance: float) -> dict[str, float]:
        return {"weak": 0.0, "strong": 4.0 if significance > 0.01 else 2.0}

    assert p_value(claim, below) == expected

    # None is skipped that contradicts nothing.
    def but_one(significance: float) -> dict[str, float]:
        return {"any": 0.0 if 0.02 < significance < 0.03 else 2.0}

    assert p_value(1.0, but_one) == 0.05


def test_true_claims_have_p_values_that_are_rarely_small():
    truth = composed_epsilon("gdp", 1.0, DELTA)
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        inside, outside = rng.normal(0.5, 1, 500), rng.normal(-0.5, 1, 500)

        how: dict[str, Any] = {"delta": DELTA, "equal_noise": True, "seed": seed}
        bounds = partial(lower_bounds, inside, outside, **how)
        found.append(p_value(truth, bounds))
        assert p_value(0.2 * truth, bounds) < 1e-3
    assert sum(p < 1 for p in found) <= 2  # 1 is expected at most
