"""The bound from one run stays under the ε of known mechanisms."""

import math

import numpy as np
import pytest
import scipy.stats

from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.attacks import one_run

DELTA = 1e-5


def test_without_delta_the_p_value_is_binomial():
    chance = math.e / (1 + math.e)
    expected = scipy.stats.binom.sf(79, 100, chance)
    found = one_run.guesses_p_value(80, 100, 200, 1.0, 0.0)
    np.testing.assert_allclose(found, expected)


def test_delta_adds_the_steepest_chord():
    chance = 1 / (1 + math.exp(-2.0))

    def least(right: int) -> float:
        return float(scipy.stats.binom.sf(right - 1, 20, chance))

    steepest = max((least(19 - i) - least(19)) / i for i in range(1, 20))
    expected = least(19) + 2 * 50 * 1e-3 * steepest
    found = one_run.guesses_p_value(19, 20, 50, 2.0, 1e-3)
    np.testing.assert_allclose(found, expected)


def test_randomised_response_is_bounded_by_its_epsilon():
    """Each coin is told truly with chance e^ε/(1 + e^ε): the theorem's worst case."""
    truth = math.log(3)
    above, rng = 0, np.random.default_rng(0)
    for _ in range(100):
        coins = rng.random(400) < 0.5
        told = np.where(rng.random(400) < 0.75, coins, ~coins) + 1e-3 * rng.random(400)
        bound = one_run.lower_bound(told[coins], told[~coins], delta=0.0)
        above += bound > truth
        assert bound > 0.3
    assert above <= 5


@pytest.mark.parametrize("mu", [0.0, 1.0, 3.0])
def test_gaussian_canaries_are_bounded_by_their_epsilon(mu: float):
    truth = composed_epsilon("gdp", mu**2, DELTA)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        inside, outside = rng.normal(mu, 1, 200), rng.normal(0, 1, 200)
        bound = one_run.lower_bound(inside, outside, delta=DELTA)
        assert bound <= truth
        if mu == 3:
            assert bound > 3


def test_the_bound_is_where_the_p_value_crosses_the_significance():
    rng = np.random.default_rng(1)
    scores = rng.normal(2, 1, 100), rng.normal(0, 1, 100)
    bound = one_run.lower_bound(*scores, delta=DELTA)
    assert one_run.p_value(*scores, epsilon=bound, delta=DELTA) <= 0.05
    assert one_run.p_value(*scores, epsilon=bound + 0.01, delta=DELTA) > 0.05
    assert one_run.p_value(*scores, epsilon=math.inf, delta=DELTA) == 1.0
