"""The randomised response of a vote."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax import influence

FLIP = 0.755081


def test_the_estimator_is_unbiased_over_1e5_draws():
    votes = jnp.concatenate([jnp.ones(70_000), -jnp.ones(30_000)])
    reports = influence.randomized_response(votes, FLIP, jax.random.key(0))
    estimate = np.asarray(reports) / (1 - FLIP)
    for value, part in ((1, estimate[:70_000]), (-1, estimate[70_000:])):
        standard_error = part.std() / math.sqrt(len(part))
        assert abs(part.mean() - value) < 4 * standard_error


@pytest.mark.parametrize("flip", [0.5, FLIP])
def test_the_empirical_likelihood_ratio_stays_within_the_exact_epsilon(flip: float):
    draws = 200_000
    chance = {
        value: float(
            np.mean(
                np.asarray(
                    influence.randomized_response(
                        jnp.full((draws,), value), flip, jax.random.key(int(value) + 1)
                    )
                )
                == 1
            )
        )
        for value in (-1.0, 1.0)
    }
    ratio = math.log(chance[1.0] / chance[-1.0])
    other = math.log((1 - chance[-1.0]) / (1 - chance[1.0]))
    exact = influence.exact_vote_epsilon(flip)
    for found in (ratio, other):  # the exact ε, hence well within the published one
        np.testing.assert_allclose(found, exact, atol=0.03)
        assert found < influence.vote_epsilon(flip)


def test_a_repeated_query_returns_the_memoised_answer():
    votes = jnp.where(
        jax.random.bernoulli(jax.random.key(1), shape=(40, 40)), 1.0, -1.0
    )
    memory = jax.random.key(2)
    first = influence.randomized_response(votes, FLIP, memory)
    again = influence.randomized_response(votes, FLIP, memory)
    np.testing.assert_array_equal(first, again)
    # A changed vote asks the other answer; going back gets the first one again.
    other = influence.randomized_response(-votes, FLIP, memory)
    assert np.any(np.asarray(other) != np.asarray(first))
    mixed = votes.at[0].multiply(-1)
    partly = influence.randomized_response(mixed, FLIP, memory)
    np.testing.assert_array_equal(partly[1:], first[1:])
    np.testing.assert_array_equal(partly[0], other[0])
    elsewhere = influence.randomized_response(votes, FLIP, jax.random.key(3))
    assert np.any(np.asarray(elsewhere) != np.asarray(first))


def test_without_noise_the_votes_are_told_and_bad_input_is_refused():
    votes = jnp.asarray([1.0, -1.0, 1.0])
    told = influence.randomized_response(votes, 0.0, jax.random.key(0))
    np.testing.assert_array_equal(told, votes)
    with pytest.raises(ValueError, match="votes must be"):
        influence.randomized_response(jnp.asarray([0.0]), 0.5, jax.random.key(0))
    with pytest.raises(ValueError, match="flip_probability must be"):
        influence.randomized_response(votes, 1.5, jax.random.key(0))
