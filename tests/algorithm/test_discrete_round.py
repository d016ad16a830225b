"""A round whose uploads are residues: what the server adds up and makes of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick_training import quick_training  # noqa: F401, a fixture
from small_runs import digits, small

from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import build
from fedsvp_jax.mechanisms.grid import grid_step

pytestmark = pytest.mark.across("uploads, sums and the server, in residues")

CLIPPED = {
    "mechanism": "gaussian",
    "noise_std": 0.02,
    "l2_norm_clip": 0.1,
    "sensitivity": "update_clip",
    "relation": "add_remove",
    "noise_sampler": "discrete",
    "noise_trust": "secure_aggregation",
    "model": "mlp",
    "cohort_size": 4,
    "num_rounds": 1,
    "eval_every": 1,
}


def moved(chunk: int, devices: int):
    config = small(**CLIPPED, client_chunk_size=chunk)
    made = build([config], digits())
    placement = Placement(num_devices=devices)
    trainer = Trainer(made, placement=placement)
    state = trainer.initial_state()
    before = jax.tree.map(np.array, state.params)
    after, metrics = trainer.advance(state, 0, 1)
    step = jax.tree.map(lambda new, old: np.asarray(new) - old, after.params, before)
    noise = jax.tree.map(lambda leaf: leaf[0, 0], metrics.clients.noise)
    return made, jax.tree.leaves(step), noise


@pytest.mark.usefixtures("quick_training")
def test_the_server_moves_the_model_by_a_sum_of_residues():
    made, one, noise = moved(1, 1)
    grid = made.mechanism.grid
    assert grid.summed == 4 and made.mechanism.claim.central
    unit = float(grid_step(grid, jnp.float32(noise.noise_std[0]))) / 4
    flat = np.concatenate([leaf.ravel() for leaf in one]) / unit
    # The weights that the step was added to cost digits, not the grid.
    assert np.mean(np.abs(flat - np.round(flat)) < 0.05) > 0.95
    spread = float(noise.noise_std[0]) / 2
    assert np.std(flat * unit) == pytest.approx(spread, rel=0.1)
