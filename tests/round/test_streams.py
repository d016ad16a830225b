"""Randomness: every client, round, purpose and seed has numbers of its own.

Mistakes that other tests did not notice are looked for here: one noise key for all
clients, one key of local training for all, and a release of R from the noise's key.
Server noise from the cohort's key is seen in test_round_client_by_client.
"""

from functools import cache
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from published import epsilon_of
from small_runs import digits, small

from fedsvp_jax.core import prng
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.federation import build
from fedsvp_jax.round import client_work
from fedsvp_jax.round.local_training import Draws
from fedsvp_jax.run.trainer import Trainer

Z, STD = 0.25, 0.5  # Δ = 2C = 2
K = 3  # of small(): the cohort's size


@cache
def noisy_average(seed: int) -> np.ndarray:
    """(3, d): what the noise alone moved the model by, in each of three rounds."""
    config = small(
        mechanism="gaussian",
        epsilon=epsilon_of(Z, 0.1),
        delta=0.1,
        clipping="update_clip",
        weighting="uniform",
        learning_rate=1e-12,
        num_rounds=3,
        seed=seed,
    )
    trainer = Trainer(build([config], digits()))
    state = trainer.initial_state()
    reached = [np.asarray(ravel_pytree(state.params)[0])]
    for round_num in range(3):
        state, _ = trainer.advance(state, round_num, 1)
        reached.append(np.asarray(ravel_pytree(state.params)[0]))
    return np.diff(reached, axis=0)


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


def test_every_purpose_of_a_client_has_the_key_of_its_address() -> None:
    """Round, purpose, client."""
    made = build([small()], digits())
    round_key = prng.round_key(prng.root_key(7), 2)
    at, cell = Address(round_key, 5), cell_of(made.cells, 0)
    told = dict.fromkeys(("num_examples", "ratio", "params"))
    with (
        mock.patch.object(client_work, "release_contribution") as release,
        mock.patch.object(client_work.local_training, "local_update") as training,
    ):
        noised = made.mechanism._replace(update=mock.Mock())
        client_work.released_ratio(jnp.float32(0.5), cell.mechanism, at)
        client_work.train(made.model, made.plan.recipe, cell.rates, None, None, at)
        client_work.add_noise(noised, None, None, **told, at=at)
    (draws,) = (one for one in training.call_args.args if isinstance(one, Draws))
    used = {
        prng.Stream.CONTRIBUTION_RELEASE: release.call_args.kwargs["key"],
        prng.Stream.LOCAL_TRAINING: draws.key,
        prng.Stream.DP_SGD: draws.secret,
        prng.Stream.NOISE: noised.update.call_args.kwargs["key"],
    }
    for purpose, key in used.items():
        of_purpose = jax.random.fold_in(round_key, int(purpose))
        assert key == jax.random.fold_in(of_purpose, 5)
