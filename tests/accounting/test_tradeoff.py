"""Risk by ε: laws of guesses, and that many δ bound them as the mechanism does."""

import math

import numpy as np
import pytest
from scipy import optimize
from scipy.stats import norm

from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.accounting.composition import composed_epsilon
from fedsvp_jax.mechanisms.subsampling import SampledSteps

DELTAS = [1e-5, *map(float, tradeoff._DELTAS)]


def test_epsilon_bounds_guesses_as_randomized_response_does() -> None:
    """It tells a bit with odds e^ε, so that no smaller bound holds at δ = 0."""
    assert tradeoff.right_of_100([(0.0, 0.0)]) == 50
    assert tradeoff.right_of_100([(math.inf, 0.0)]) == 100
    assert tradeoff.right_of_100([(math.log(3), 0.0)]) == pytest.approx(75)
    assert tradeoff.recognised([(math.log(3), 0.0)]) == pytest.approx(0.03)
    assert tradeoff.recognised([(0.0, 0.0)]) == pytest.approx(0.01)


@pytest.mark.parametrize("mu", [0.1, 0.7, 2.0])
def test_of_a_gaussian_the_bounds_come_close_to_its_own_rates(mu: float) -> None:
    pairs = [(composed_epsilon("gdp", mu**2, delta), delta) for delta in DELTAS]
    told, exact = tradeoff.risk(pairs), tradeoff.risk(pairs, exact=True)
    assert told["mu"] == exact["mu"] == pytest.approx(mu, rel=1e-6)
    true = float(norm.cdf(mu - norm.isf(0.01))), 100 * float(norm.cdf(mu / 2))
    assert exact["recognised"] == pytest.approx(true[0], rel=1e-6)
    assert exact["right_of_100"] == pytest.approx(true[1], rel=1e-6)
    assert 1 <= told["recognised"] / true[0] < 1.1
    assert 1 <= told["right_of_100"] / true[1] < 1.1


@pytest.mark.hole
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 8.0])
def test_a_promise_by_renyi_accounting_bounds_guesses_better_than_its_one_pair(
    epsilon: float,
) -> None:
    """Sites showed 96 of 100, a plan of them 65; the noise that is spent has 64."""
    orders = 1 + np.exp(np.linspace(-6, 8, 20_001))
    rest = np.log1p(-1 / orders) - np.log(1e-5 * orders) / (orders - 1)
    rho = optimize.brentq(lambda r: (r * orders + rest).min() - epsilon, 0, 9)
    risk = tradeoff.of_promises([(epsilon, 1e-5, "rdp")])
    spent = float(norm.cdf(math.sqrt(2 * rho) / 2)), math.sqrt(2 * rho)
    assert 100 * spent[0] < risk["right_of_100"] < 100 * spent[0] + 12
    assert norm.cdf(spent[1] - norm.isf(0.01)) < risk["recognised"]
    assert risk["right_of_100"] < tradeoff.right_of_100([(epsilon, 1e-5)])


def test_a_promise_of_a_huge_epsilon_has_no_protection() -> None:
    """A damaged log said 1e308, whose root has no bracket."""
    assert tradeoff.of_promises([(1e308, 1e-5, "rdp")])["right_of_100"] == 100


def test_a_step_on_a_secret_batch_is_bounded_by_its_own_rates() -> None:
    """One subsampled Gaussian, whose best test at 1 % false alarms is known.

    With probability q the record shifts the answer by 1/z, so the most powerful test
    is a threshold: TPR = 1/100 + q (Φ(1/z − Φ⁻¹(.99)) − 1/100).
    """
    z, q = 0.7, 0.2
    step = SampledSteps(z, q, 1)
    pairs = [
        (composed_epsilon("pld", 0.0, delta, steps=step), delta) for delta in DELTAS
    ]
    true = 0.01 + q * (float(norm.cdf(1 / z - norm.isf(0.01))) - 0.01)
    assert true <= tradeoff.recognised(pairs) < 1.2 * true
    assert tradeoff.recognised(pairs) < tradeoff.recognised(pairs[:1])
