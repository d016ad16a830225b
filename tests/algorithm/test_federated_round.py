"""The round as a whole: its bits, its laws, and what it reports."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from quick_training import quick_training  # noqa: F401, a fixture
from small_runs import digits, small, small_trainer

from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build
from fedsvp_jax.mechanisms.grid import grid_step

PORTION = Placement(rounds_per_call=3)
CONFIG = small(cohort_size=5, num_rounds=3)


def test_every_upload_costs_its_client_what_its_round_costs() -> None:
    """With costs that grow, so that no round's cost stands for another's."""
    trainer = small_trainer(CONFIG, placement=PORTION)
    costs = jnp.asarray([[1, 10, 100]], jnp.int32)
    kept = trainer.cells.allowance._replace(costs=costs, budget=jnp.int32([111]))
    trainer.cells = dataclasses.replace(trainer.cells, allowance=kept)
    state, metrics = trainer.advance(trainer.initial_state(), 0, 3)
    clients = np.asarray(metrics.clients.client_id)[:, 0]
    expected = np.zeros(7, np.int32)
    for cost, ids in zip((1, 10, 100), clients, strict=True):
        expected[ids] += cost
    np.testing.assert_array_equal(state.spent[0], expected)


def test_the_round_is_compiled_once() -> None:
    trainer = small_trainer(CONFIG, placement=PORTION)
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    with jax.no_tracing():
        for done in (1, 2):
            state, _ = trainer.advance(state, done, 1)


@pytest.mark.usefixtures("quick_training")
def test_the_server_moves_the_model_by_a_sum_of_residues() -> None:
    settings = {
        "mechanism": "gaussian",
        "noise_std": 0.02,
        "l2_norm_clip": 0.1,
        "sensitivity": "update_clip",
        "relation": "add_remove",
        "noise_sampler": "discrete",
        "noise_trust": "secure_aggregation",
        "cohort_size": 4,
        "num_rounds": 1,
        "client_chunk_size": 1,
    }
    made = build([small(**settings)], digits())
    trainer = Trainer(made)
    state = trainer.initial_state()
    before = np.asarray(ravel_pytree(state.params)[0])
    after, metrics = trainer.advance(state, 0, 1)
    step = np.asarray(ravel_pytree(after.params)[0]) - before
    std = float(metrics.clients.noise.noise_std[0, 0, 0])
    grid = made.mechanism.grid
    assert grid.summed == 4 and made.mechanism.claim.central
    unit = float(grid_step(grid, jnp.float32(std))) / 4
    # The weights that the step was added to cost digits, not the grid.
    assert np.mean(np.abs(step / unit - np.round(step / unit)) < 0.05) > 0.95
    assert np.std(step) == pytest.approx(std / 2, rel=0.1)
