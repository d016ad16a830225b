"""The centre's own validation, and the model of those who are kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import World, make_world, rates

from experiments.influence import baselines


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(num=10)


def test_corrupted_contributors_score_lower(world: World):
    scores = np.asarray(
        baselines.centre_validation(
            world.kernel, world.train, world.test, rates(), key=jax.random.key(0)
        )
    )
    assert scores.shape == (10,)
    assert scores[world.corrupted].mean() < scores[~world.corrupted].mean()


def test_leaving_the_corrupted_out_gives_a_better_model(world: World):
    def accuracy(admitted: np.ndarray) -> float:
        return float(
            baselines.model_accuracy(
                world.kernel, world.train, world.test, jnp.asarray(admitted), rates()
            )
        )

    assert accuracy(~world.corrupted) >= accuracy(world.corrupted)
