"""What votes, test sets and contributions cost."""

import math

import numpy as np
import pytest

from fedsvp_jax import influence


@pytest.mark.parametrize(
    ("flip", "published"), [(0.5, 2.197225), (0.7550813375962909, 1.0)]
)
def test_the_price_of_a_vote_is_the_published_one_and_exactly_half(
    flip: float, published: float
):
    np.testing.assert_allclose(influence.vote_epsilon(flip), published, rtol=1e-6)
    np.testing.assert_allclose(
        influence.exact_vote_epsilon(flip), published / 2, rtol=1e-6
    )
    np.testing.assert_allclose(influence.flip_probability(published), flip, rtol=1e-6)


def test_epsilon_1_keeps_a_vote_with_probability_622459():
    flip = influence.flip_probability(1.0)
    np.testing.assert_allclose([flip, 1 - flip / 2], [0.755081, 0.622459], atol=5e-7)
    assert influence.flip_probability(math.inf) == 0.0
    assert influence.vote_epsilon(0.0) == math.inf


def test_a_test_set_pays_for_every_vote():
    cost = influence.guarantees(
        num_participants=100,
        vote_epsilon_published=1.0,
        noise_multiplier=0.1,
        delta=1e-5,
    )
    assert cost.num_votes == 99
    np.testing.assert_allclose(cost.test_set_basic, 99 * 0.5)
    advanced = 0.5 * math.sqrt(2 * 99 * math.log(1e5)) + 99 * 0.5 * math.expm1(0.5)
    np.testing.assert_allclose(cost.test_set_advanced, advanced)
    # Exact composition is at most either, and more than k ε tanh(ε/2), its mean.
    assert 99 * 0.5 * math.tanh(0.25) < cost.test_set_pld < cost.test_set_basic


def test_a_vote_that_may_change_between_passes_has_no_finite_price():
    twice = influence.guarantees(
        num_participants=10,
        vote_epsilon_published=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
        passes=2,
    )
    assert twice.vote == twice.test_set_pld == math.inf
    assert math.isfinite(twice.contribution)


def test_the_contributions_gaussian_is_counted_apart_by_a_ledger():
    ledger = influence.contribution_ledger(5, noise_multiplier=2 * 3.730632, delta=1e-5)
    np.testing.assert_allclose(ledger.epsilon_spent("gdp", 1e-5), 1.0, atol=1e-4)
    np.testing.assert_allclose(ledger.epsilon_spent("basic", 1e-5), 1.0, atol=1e-4)
    twice = influence.contribution_ledger(
        5, noise_multiplier=2 * 3.730632, delta=1e-5, passes=2
    )
    spent = twice.epsilon_spent("gdp", 1e-5)
    assert 1.0 < spent < 2.0 and ledger.proved
    none = influence.contribution_ledger(5, noise_multiplier=0.0, delta=1e-5)
    assert none.epsilon_spent("gdp", 1e-5) == math.inf


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="vote_epsilon must be > 0"):
        influence.flip_probability(0.0)
    with pytest.raises(ValueError, match="flip_probability must be in"):
        influence.vote_epsilon(-0.1)


def test_every_price_of_one_pass_is_named():
    told = {"noise_multiplier": 2.0, "delta": 1e-5}
    cost = influence.guarantees(num_participants=5, vote_epsilon_published=1.0, **told)
    flip = influence.flip_probability(1.0)
    np.testing.assert_allclose(cost.flip_probability, flip)
    np.testing.assert_allclose(cost.keep_probability, 1 - flip / 2)
    np.testing.assert_allclose([cost.vote_published, cost.vote], [1.0, 0.5])
    assert cost.delta == 1e-5
    ledger = influence.contribution_ledger(5, **told)
    assert cost.contribution == ledger.epsilon_spent("gdp", 1e-5)
    bare = influence.guarantees(
        num_participants=5,
        vote_epsilon_published=math.inf,
        noise_multiplier=0.0,
        delta=1e-5,
    )
    prices = (bare.vote, bare.vote_published, bare.test_set_basic, bare.contribution)
    assert prices == (math.inf,) * 4 and bare.keep_probability == 1


def test_a_vote_that_is_always_drawn_tells_nothing_and_f_has_ends():
    assert influence.exact_vote_epsilon(1.0) == 0.0
    with pytest.raises(ValueError, match="flip_probability must be in"):
        influence.exact_vote_epsilon(1.1)
