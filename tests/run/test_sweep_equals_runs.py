"""Cells side by side against single runs: close after a round, alike after a run.

Cells that run in turn have the single run's program and so its bits (test_sweep.py).
Side by side they are one vmapped product, whose sums XLA orders otherwise; seeds that a
loop of its own maps are compared in tests/run/test_own_loop.py.
"""

import dataclasses

import chex
import jax
import numpy as np
import pytest
from small_runs import small, small_trainer

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core.structs import Params
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.run.placement import Placement

# float32 sums in another order, over the few steps of one round
RTOL, ATOL = 1e-4, 1e-6


def advanced(*configs: ExperimentConfig, chunk: int = 1) -> tuple[Params, np.ndarray]:
    """Parameters after the first round, and the last accuracies."""
    rounds = configs[0].num_rounds
    placement = Placement(cell_chunk_size=chunk, rounds_per_call=rounds)
    trainer = small_trainer(*configs, placement=placement)
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    first = jax.device_get(state.params)
    _, metrics = trainer.advance(state, 1, rounds - 1)
    return first, metrics.test_accuracy[-1]


@pytest.mark.slow
def test_cells_side_by_side_are_close_after_a_round_and_end_alike() -> None:
    """No cell ends further from its run than seeds are from one another."""
    base = small(mechanism="nbafl", num_rounds=6, learning_rate=0.05, epsilon=0.9)
    configs = [dataclasses.replace(base, seed=seed) for seed in (0, 1, 2)]
    first, together = advanced(*configs, chunk=3)
    runs = [advanced(config) for config in configs]
    for index, (alone, _) in enumerate(runs):
        found, wanted = cell_of(first, index), cell_of(alone, 0)
        chex.assert_trees_all_close(found, wanted, rtol=RTOL, atol=ATOL)
    ended = np.array([accuracy[0] for _, accuracy in runs])
    assert np.abs(together - ended).max() <= max(ended.std(ddof=1), 1 / 355)
