"""Randomness: every client, round, purpose and seed has numbers of its own.

Mistakes that other tests did not notice are looked for here: one noise key for all
clients, one key of local training for all, and a release of R from the noise's key.
Server noise from the cohort's key is seen in test_round_by_hand.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import digits, small

from fedsvp_jax import prng
from fedsvp_jax.algorithm import client
from fedsvp_jax.algorithm.local_training import Draws
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import Program, build
from fedsvp_jax.prng import Address
from fedsvp_jax.tree import cell_of

pytestmark = pytest.mark.across("independence of random numbers through the round")

STD = 0.5
K = 3  # of small(): the cohort's size


@cache
def noisy_average(seed: int) -> np.ndarray:
    """(3, d): what the noise alone moved the model by, in each of three rounds."""
    config = small(
        mechanism="gaussian",
        noise_std=STD,
        sensitivity="update_clip",
        weighting="uniform",
        learning_rate=1e-12,
        num_rounds=3,
        seed=seed,
    )
    trainer = Trainer(build([config], digits()))
    state = trainer.initial_state()
    before, moved = flat(state.params), []
    for round_num in range(3):
        state, _ = trainer.advance(state, round_num, 1)
        after = flat(state.params)
        moved.append(after - before)
        before = after
    return np.stack(moved)


def flat(params: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])


def test_the_averages_noise_shrinks_by_the_root_of_the_cohort() -> None:
    """With one key for all clients its std would be the upload's own."""
    for moved in noisy_average(0):
        error = STD / np.sqrt(K) / np.sqrt(2 * moved.size)
        assert abs(moved.std() - STD / np.sqrt(K)) < 5 * error
        assert abs(moved.mean()) < 5 * STD / np.sqrt(K * moved.size)


def test_noise_of_rounds_and_of_seeds_is_uncorrelated() -> None:
    draws = [*noisy_average(0), *noisy_average(1)]
    correlation = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlation).max() < 5 / np.sqrt(draws[0].size)


@cache
def program(**changes: Any) -> Program:
    return build([small(**changes)], digits())


def round_key() -> jax.Array:
    return prng.round_key(prng.root_key(7), 2)


def stream(purpose: prng.Stream, client_id: int = 0) -> jax.Array:
    """The documented address of a key: round, purpose, client."""
    return jax.random.fold_in(jax.random.fold_in(round_key(), int(purpose)), client_id)


def test_every_purpose_of_a_client_has_the_key_of_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: dict[str, jax.Array] = {}

    def recorded(name: str, result: Any) -> Any:
        def call(*told: Any, **named: Any) -> Any:
            draws = [one for one in told if isinstance(one, Draws)]
            used[name] = draws[0].key if draws else named["key"]
            return result

        return call

    monkeypatch.setattr(client, "release_contribution", recorded("release", 1.0))
    monkeypatch.setattr(
        client.local_training, "local_update", recorded("training", (None, None))
    )
    mechanism = program().mechanism._replace(update=recorded("noise", None))
    made, at = program(), Address(round_key(), 5)
    cell = cell_of(made.cells, 0)
    client.released_ratio(jnp.float32(0.5), cell.mechanism, at)
    client.train(made.model, made.plan.recipe, cell.rates, None, None, at)
    client.add_noise(
        mechanism,
        None,
        None,
        num_examples=None,
        ratio=None,
        params=None,
        at=at,
    )
    expected = {
        "release": prng.Stream.CONTRIBUTION_RELEASE,
        "training": prng.Stream.LOCAL_TRAINING,
        "noise": prng.Stream.NOISE,
    }
    for name, purpose in expected.items():
        np.testing.assert_array_equal(
            jax.random.key_data(used[name]), jax.random.key_data(stream(purpose, 5))
        )
