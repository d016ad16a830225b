"""The filter: contributions, votes and their randomised response, sums, decision."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import World, make_world, rates

from fedsvp_jax import influence
from fedsvp_jax.core.structs import Array, cross_entropy
from fedsvp_jax.influence import lazy, privacy
from fedsvp_jax.influence.lazy import Batches, Verdict
from fedsvp_jax.influence.settings import FilterSettings

FLIP = 0.755081  # of a vote at the published ε = 1


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


def sent(world: World, rates: FilterSettings) -> Array:
    key = jax.random.key(7)
    return lazy.contributions(world.kernel, world.train, rates, key=key)


def run(world: World, rates: FilterSettings) -> Verdict:
    keys = {"contribution_key": jax.random.key(7), "vote_key": jax.random.key(8)}
    return influence.lazy_influence(*world[:3], rates, **keys)


def test_a_vote_is_the_sign_of_the_sum_of_loss_differences(world: World):
    votes = np.zeros((20, 20))
    loss_of = jax.jit(lambda kernel, x, labels: cross_entropy(x @ kernel.T, labels))
    for contributor, kernel in enumerate(sent(world, rates())):
        for tester in set(range(20)) - {contributor}:
            x, labels = world.test.x[tester], world.test.labels[tester]
            gained = loss_of(world.kernel, x, labels) - loss_of(kernel, x, labels)
            votes[contributor, tester] = 1 if float(jnp.sum(gained)) > 0 else -1
    verdict = run(world, rates())
    np.testing.assert_array_equal(verdict.scores, votes.sum(1))


def test_a_tie_votes_minus_1(world: World):
    still = run(world, rates(influence_learning_rate=1e-30))
    np.testing.assert_array_equal(still.scores, -19.0)
    assert not np.any(still.rejected)  # equal scores: nobody


def test_a_contribution_is_clipped_and_noised_by_its_own_key(world: World):
    noisy = {"contribution_noise": 0.5}
    free, clipped, noised = (
        sent(world, rates(**chosen)) - world.kernel[None]
        for chosen in (
            {"influence_clip": 1e6},
            {"influence_clip": 0.2},
            {"influence_clip": 0.2} | noisy,
        )
    )
    norms = jnp.linalg.norm(free.reshape(20, -1), axis=1)
    assert np.all(norms > 0.2)
    scale = (0.2 / norms)[:, None, None]
    np.testing.assert_allclose(clipped, free * scale, atol=1e-6)
    noise = np.asarray(noised - clipped)
    np.testing.assert_allclose(noise.std(), 0.5 * 0.2, rtol=0.1)
    assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 0.6


def test_padding_changes_nothing(world: World):
    def padded(batches: Batches) -> Batches:
        return Batches(
            jnp.pad(batches.x, ((0, 0), (0, 3), (0, 0)), constant_values=9.0),
            jnp.pad(batches.labels, ((0, 0), (0, 3))),
            jnp.pad(batches.weights, ((0, 0), (0, 3))),
        )

    longer = world._replace(train=padded(world.train), test=padded(world.test))
    np.testing.assert_array_equal(
        run(longer, rates()).scores, run(world, rates()).scores
    )


def test_the_same_keys_give_the_same_bits(world: World):
    noisy = rates(flip=0.5, contribution_noise=0.1)
    first, again = run(world, noisy), run(world, noisy)
    jax.tree.map(np.testing.assert_array_equal, first, again)


def test_the_minimum_gap_keeps_a_clean_federation_whole():
    world = make_world(seed=1)
    clean = np.flatnonzero(~world.corrupted)
    part = jax.tree.map(lambda leaf: leaf[clean], world[1:])
    only = World(world.kernel, *part)
    assert not np.any(run(only, rates(minimum_gap=0.25)).rejected)
    kept = run(world, rates(minimum_gap=0.25))
    np.testing.assert_array_equal(kept.rejected, world.corrupted)


@pytest.mark.parametrize("flip", [0.5, FLIP])
def test_the_empirical_likelihood_ratio_stays_within_the_exact_epsilon(flip: float):
    chance = {}
    for value in (-1.0, 1.0):
        votes, key = jnp.full((200_000,), value), jax.random.key(int(value) + 1)
        reports = lazy.randomized_response(votes, flip, key)
        chance[value] = float(jnp.mean(reports == 1))
    ratio = math.log(chance[1.0] / chance[-1.0])
    other = math.log((1 - chance[-1.0]) / (1 - chance[1.0]))
    exact = privacy.exact_vote_epsilon(flip)
    for found in (ratio, other):  # the exact ε, hence well within the published one
        np.testing.assert_allclose(found, exact, atol=0.03)
        assert found < 2 * exact


def test_a_repeated_query_returns_the_memoised_answer():
    """A changed vote asks the other answer; going back gets the first one again."""
    votes = jax.random.rademacher(jax.random.key(1), (40, 40), jnp.float32)

    def told(votes: Array, key: int = 2) -> np.ndarray:
        memory = jax.random.key(key)
        return np.asarray(lazy.randomized_response(votes, FLIP, memory))

    first, other = told(votes), told(-votes)
    np.testing.assert_array_equal(first, told(votes))
    assert np.any(other != first) and np.any(told(votes, 3) != first)
    mixed = told(votes.at[0].multiply(-1))
    np.testing.assert_array_equal(mixed[1:], first[1:])
    np.testing.assert_array_equal(mixed[0], other[0])


def test_without_noise_the_votes_are_told():
    votes = jnp.asarray([1.0, -1.0, 1.0])
    lazy.randomized_response(votes, 1.0, jax.random.key(0))  # f may be 1
    told = lazy.randomized_response(votes, 0.0, jax.random.key(0))
    np.testing.assert_array_equal(told, votes)
