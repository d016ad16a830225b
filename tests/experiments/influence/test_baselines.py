"""The other scores, and truncated Monte Carlo Shapley values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import World, make_world, rates

from experiments.influence import baselines
from fedsvp_jax import influence


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(num=10)


def scores_of(name: str, world: World) -> np.ndarray:
    three = world.kernel, world.train, world.test
    match name:
        case "exact":
            found = baselines.exact_influence(*three, rates())
        case "first_order":
            found = baselines.first_order_influence(*three)
        case "shapley":
            found = baselines.data_shapley(
                *three,
                rates(),
                num_permutations=10,
                tolerance=0.0,
                key=jax.random.key(0),
            )
        case _:
            found = baselines.centre_validation(*three, rates(), key=jax.random.key(0))
    return np.asarray(found)


@pytest.mark.parametrize("name", ["exact", "first_order", "shapley", "centre"])
def test_corrupted_contributors_score_lower(name: str, world: World):
    scores = scores_of(name, world)
    assert scores.shape == (10,)
    assert scores[world.corrupted].mean() < scores[~world.corrupted].mean()
    if name != "centre":
        rejected = scores < float(influence.two_means(jnp.asarray(scores)).threshold)
        assert influence.filtration(rejected, world.corrupted).recall >= 2 / 3


def test_exact_influence_is_the_loss_without_minus_the_loss_with(world: World):
    scores = scores_of("exact", world)
    nobody_else = jnp.ones((10,), bool).at[4].set(False)
    losses = [
        baselines._mean_loss(
            baselines._trained_on(world.kernel, world.train, present, rates(), 50),
            world.test,
        )
        for present in (nobody_else, jnp.ones((10,), bool))
    ]
    np.testing.assert_allclose(scores[4], losses[0] - losses[1], atol=1e-5)


def test_leaving_the_corrupted_out_gives_a_better_model(world: World):
    def accuracy(admitted: np.ndarray) -> float:
        return float(
            baselines.model_accuracy(
                world.kernel, world.train, world.test, jnp.asarray(admitted), rates()
            )
        )

    assert accuracy(~world.corrupted) >= accuracy(world.corrupted)
