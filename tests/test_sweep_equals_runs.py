"""Cells side by side against single runs: close after a round, alike after a run.

Cells that run in turn have the single run's program and so its bits (test_sweep.py).
Side by side they are one vmapped product, whose sums XLA orders otherwise.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Sequence

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from small_runs import digits, small

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.federated_round import ServerState
from fedsvp_jax.training import Placement, Trainer, cell_of, params_sha256

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
    configs: Sequence[ExperimentConfig], rounds: int, *, chunk: int = 1
) -> tuple[ServerState, np.ndarray]:
    """The state after the rounds, and the last round's accuracies (cells,)."""
    placement = Placement(cell_chunk_size=chunk, rounds_per_call=rounds)
    trainer = Trainer(configs, digits(), placement=placement)
    state, metrics = trainer.advance(trainer.initial_state(), 0, rounds)
    return state, metrics.test_accuracy[-1]


def assert_alike(
    together: np.ndarray, alone: np.ndarray, num_seeds: int, *, least: float
) -> None:
    """No cell is further from its run than seeds are from one another."""
    spread = alone.reshape(-1, num_seeds).std(axis=1, ddof=1)
    gap = np.abs(together - alone).reshape(-1, num_seeds).max(axis=1)
    assert np.all(gap <= np.maximum(spread, least)), (gap, spread)


def test_cells_side_by_side_are_close_to_single_runs_after_one_round() -> None:
    configs = grid(small(), (0.2, 0.8), (0, 2))
    state, _ = advanced(configs, 1, chunk=4)
    for index, config in enumerate(configs):
        alone, _ = advanced([config], 1)
        for ours, theirs in zip(
            jax.tree.leaves(cell_of(state.params, index)),
            jax.tree.leaves(cell_of(alone.params, 0)),
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs, rtol=RTOL, atol=ATOL)


def test_cells_side_by_side_end_where_single_runs_end() -> None:
    configs = grid(small(num_rounds=12, learning_rate=0.05), (0.9,), (0, 1, 2))
    _, together = advanced(configs, 12, chunk=3)
    alone = np.array([advanced([config], 12)[1][0] for config in configs])
    assert_alike(together, alone, 3, least=1 / 355)


@pytest.fixture
def _one_compiled_program(tmp_path: pathlib.Path) -> Iterator[None]:
    """25 single runs have one program: compiled once, then read back."""
    kept = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    compilation_cache.reset_cache()
    yield
    jax.config.update("jax_compilation_cache_dir", kept)
    compilation_cache.reset_cache()


@pytest.mark.slow
@pytest.mark.usefixtures("_one_compiled_program")
def test_25_cells_of_one_program_are_25_single_runs() -> None:
    """5 ε × 5 seeds of FedSVA on digits, as the demo sets it up, 20 rounds."""
    base = resolve(
        ExperimentConfig(dataset="digits", mechanism="fedsva", num_rounds=20)
    )
    configs = grid(base, (0.1, 0.2, 0.3, 0.4, 0.5), range(5))
    state, in_turn = advanced(configs, 20)
    _, side_by_side = advanced(configs, 20, chunk=5)
    runs = [advanced([config], 20) for config in configs]
    for index, (alone, accuracy) in enumerate(runs):
        assert params_sha256(cell_of(state.params, index)) == params_sha256(
            cell_of(alone.params, 0)
        )
        assert in_turn[index] == accuracy[0]
    alone = np.array([accuracy[0] for _, accuracy in runs])
    assert_alike(side_by_side, alone, 5, least=1 / 355)
