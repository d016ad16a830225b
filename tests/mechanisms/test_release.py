"""Releases of R: the budget is kept for any two values, worst case included."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import published

from fedsvp_jax import mechanisms, shapley
from fedsvp_jax.influence import lazy, privacy

DRAWS = 200_000


def released(method: str, ratio: float, epsilon: float) -> np.ndarray:
    config = published(contribution_release=method, release_epsilon=epsilon)
    many = jnp.full((DRAWS,), ratio, jnp.float32)
    return np.asarray(
        mechanisms.release_contribution(many, config, key=jax.random.key(0))
    )


def test_none_tells_r_itself_and_the_worst_case_is_one():
    assert np.all(released("raw", 0.3, 1.0) == np.float32(0.3))
    assert np.all(released("worst_case", 0.3, 1.0) == 1)


@pytest.mark.parametrize(("epsilon", "gap"), [(0.1, 0.05), (1.0, 0.46)])
def test_a_small_budget_hardly_tells_r(epsilon: float, gap: float):
    """Mean release at R = 1 less that at R = 0, by randomised response.

    Each answer is at most e^ε times as likely at one as at the other.
    """
    told = [released("randomized_response", r, epsilon) for r in (0.0, 1.0)]
    assert {*np.unique(told)} == {0, 1}
    low, high = map(np.mean, told)
    np.testing.assert_allclose(high - low, gap, atol=0.01)
    for likely, seldom in ((high, low), (1 - low, 1 - high)):
        assert likely <= math.exp(epsilon) * seldom + 0.01


@pytest.mark.hole
@pytest.mark.parametrize("epsilon", np.linspace(8, 10, 9).tolist())
def test_a_bit_is_told_at_most_e_epsilon_times_as_often_of_all_draws(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
):
    """Of R and of a vote: seldom answers are counted over the draws that give them."""
    ends = np.r_[: 2**13, 2**23 - 2**13 : 2**23] / np.float32(2**23)
    key = jax.random.key(0)
    draws = np.asarray(jax.random.uniform(key, (1000,), jnp.float32)) * 2**23
    np.testing.assert_array_equal(draws, np.rint(draws))

    def every(key: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
        del key, dtype
        rows = jnp.asarray(ends, jnp.float32)
        return rows if len(shape) == 1 else jnp.stack([rows, rows], axis=1)

    monkeypatch.setattr(jax.random, "uniform", every)
    config = published(
        contribution_release="randomized_response", release_epsilon=epsilon
    )
    ratios = [jnp.full(ends.shape, end, jnp.float32) for end in (0.0, 1.0)]
    low, high = (
        mechanisms.release_contribution(ratio, config, key=key) for ratio in ratios
    )
    flip = privacy.flip_probability(2 * epsilon)
    votes = [2 * ratio - 1 for ratio in ratios]
    lower, upper = (lazy.randomized_response(v, flip, key) > 0 for v in votes)
    for seldom in (low.sum(), (1 - high).sum(), lower.sum(), (~upper).sum()):
        assert 0 < seldom < 2**13
        assert (2**23 - int(seldom)) / int(seldom) <= math.exp(epsilon)


def test_one_validation_record_can_move_r_from_zero_to_one():
    """Why no sensitivity under 1 is used: 50 validation records, one replaced."""
    step = 1 / 50
    before = shapley.exact_shapley(jnp.asarray([0.5, 0.5, 0.5 + step, 0.5 + step]))
    after = shapley.exact_shapley(jnp.asarray([0.5, 0.5 + step, 0.5, 0.5 + step]))
    ratios = [float(shapley.contribution_ratio(v, 0)) for v in (before, after)]
    np.testing.assert_allclose(ratios, [0.0, 1.0], atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_laplace_release_has_the_tails_of_its_scale(epsilon: float):
    """P(R + Laplace(1/ε) > R + t) = e^(−εt)/2: no more noise than the budget asks."""
    draws = released("laplace", 0.25, epsilon)
    error = 5 * math.sqrt(0.25 / DRAWS)
    for threshold in (0.5, 0.75, 0.999):
        tail = 0.5 * math.exp(-epsilon * (threshold - 0.25))
        assert abs(np.mean(draws > threshold) - tail) < error
    assert abs(np.mean(draws <= 0) - 0.5 * math.exp(-epsilon * 0.25)) < error


@pytest.mark.parametrize("method", ["raw", "laplace", "randomized_response"])
def test_an_r_that_is_no_number_is_released_as_one(method: str):
    """And one outside its range as the nearest end."""
    for ratio, end in ((math.nan, 1.0), (-math.inf, 1.0), (7.0, 1.0), (-7.0, 0.0)):
        np.testing.assert_array_equal(
            released(method, ratio, 0.5), released(method, end, 0.5)
        )
