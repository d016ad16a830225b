"""Cells side by side against single runs: close after a round, alike after a run.

Cells that run in turn have the single run's program and so its bits (test_sweep.py).
Side by side they are one vmapped product, whose sums XLA orders otherwise.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import jax
import numpy as np
import pytest
from small_runs import small, small_trainer

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.structs import Params
from fedsvp_jax.tree import cell_of, params_sha256

pytestmark = pytest.mark.across("sweeps against runs")

# float32 sums in another order, over the few steps of one round
RTOL, ATOL = 1e-4, 1e-6


def grid(
    base: ExperimentConfig, epsilons: Sequence[float], seeds: Sequence[int]
) -> list[ExperimentConfig]:
    return [
        dataclasses.replace(base, epsilon=epsilon, seed=seed)
        for epsilon, seed in itertools.product(epsilons, seeds)
    ]


def advanced(
    configs: Sequence[ExperimentConfig], *, chunk: int = 1
) -> tuple[Params, Params, np.ndarray]:
    """Parameters after the first and the last round, and the last accuracies."""
    rounds = configs[0].num_rounds
    placement = Placement(cell_chunk_size=chunk, rounds_per_call=rounds)
    trainer = small_trainer(*configs, placement=placement)
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    first = jax.device_get(state.params)
    state, metrics = trainer.advance(state, 1, rounds - 1)
    return first, state.params, metrics.test_accuracy[-1]


def assert_alike(
    together: np.ndarray, alone: np.ndarray, num_seeds: int, *, least: float
) -> None:
    """No cell is further from its run than seeds are from one another."""
    spread = alone.reshape(-1, num_seeds).std(axis=1, ddof=1)
    gap = np.abs(together - alone).reshape(-1, num_seeds).max(axis=1)
    assert np.all(gap <= np.maximum(spread, least)), (gap, spread)


def test_cells_side_by_side_are_close_after_a_round_and_end_alike() -> None:
    configs = grid(small(num_rounds=12, learning_rate=0.05), (0.9,), (0, 1, 2))
    first, _, together = advanced(configs, chunk=3)
    runs = [advanced([config]) for config in configs]
    for index, (alone, _, _) in enumerate(runs):
        for ours, theirs in zip(
            jax.tree.leaves(cell_of(first, index)),
            jax.tree.leaves(cell_of(alone, 0)),
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs, rtol=RTOL, atol=ATOL)
    accuracies = np.array([accuracy[0] for _, _, accuracy in runs])
    assert_alike(together, accuracies, len(configs), least=1 / 355)


@pytest.mark.slow
def test_25_cells_of_one_program_are_25_single_runs() -> None:
    """5 ε × 5 seeds of FedSVA on digits, as the demo sets it up, 20 rounds."""
    base = resolve(ExperimentConfig(mechanism="fedsva", num_rounds=20))
    configs = grid(base, (0.1, 0.2, 0.3, 0.4, 0.5), range(5))
    first, last, in_turn = advanced(configs)
    _, _, side_by_side = advanced(configs, chunk=5)
    runs = [advanced([config]) for config in configs]
    for index, run in enumerate(runs):
        for ours, theirs in zip((first, last), run[:2], strict=True):
            assert params_sha256(cell_of(ours, index)) == params_sha256(
                cell_of(theirs, 0)
            )
        assert in_turn[index] == run[2][0]
    accuracies = np.array([accuracy[0] for _, _, accuracy in runs])
    assert_alike(side_by_side, accuracies, 5, least=1 / 355)
