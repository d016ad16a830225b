"""The round as a whole: its bits, its laws, and what it reports."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import small, small_trainer

from fedsvp_jax.algorithm.state import RoundMetrics, ServerState
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.tree import params_sha256

PORTION = Placement(rounds_per_call=3)


def configured(**changes: Any) -> ExperimentConfig:
    return small(**({"cohort_size": 5, "num_rounds": 3} | changes))


def run(
    rounds: int = 2, placement: Placement = PORTION, **changes: Any
) -> tuple[ServerState, RoundMetrics]:
    trainer = small_trainer(configured(**changes), placement=placement)
    return trainer.advance(trainer.initial_state(), 0, rounds)


@pytest.mark.bits
def test_bits_do_not_depend_on_the_number_of_devices() -> None:
    """Of more settings, layouts and devices: `tests/engine/test_placement.py`."""
    one, four = (
        run(placement=Placement(num_devices=count, rounds_per_call=3))[0].params
        for count in (1, 4)
    )
    assert params_sha256(one) == params_sha256(four)


def test_every_upload_costs_its_client_what_its_round_costs() -> None:
    """With costs that grow, so that no round's cost stands for another's."""
    trainer = small_trainer(configured(), placement=PORTION)
    costs = jnp.asarray([[1, 10, 100]], jnp.int32)
    kept = trainer.cells.allowance._replace(costs=costs, budget=jnp.int32([111]))
    trainer.cells = dataclasses.replace(trainer.cells, allowance=kept)
    state, metrics = trainer.advance(trainer.initial_state(), 0, 3)
    clients = np.asarray(metrics.clients.client_id)[:, 0]
    expected = np.zeros(7, np.int32)
    for cost, ids in zip((1, 10, 100), clients, strict=True):
        expected[ids] += cost
    np.testing.assert_array_equal(state.spent[0], expected)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    first, second, other = (run(seed=seed)[0] for seed in (0, 0, 1))
    assert params_sha256(first.params) == params_sha256(second.params)
    assert params_sha256(first.params) != params_sha256(other.params)


def test_honest_but_curious_clients_have_a_contribution_of_exactly_zero() -> None:
    _, metrics = run(3, epsilon=0.9)
    curious = np.asarray(metrics.clients.client_id) == 6
    assert curious.any()
    utilities = np.asarray(metrics.clients.estimation.utilities)[curious]
    assert np.all(utilities[:, 0b01] == 0)
    np.testing.assert_array_equal(utilities[:, 0b10], utilities[:, 0b11])
    ratio = np.asarray(metrics.clients.estimation.contribution_ratio)
    assert np.all(ratio[curious] == 0)
    assert np.any(ratio[~curious] > 0)


def test_the_round_is_compiled_once() -> None:
    trainer = small_trainer(configured(), placement=PORTION)
    state, _ = trainer.advance(trainer.initial_state(), 0, 1)
    with jax.no_tracing():
        for done in (1, 2):
            state, _ = trainer.advance(state, done, 1)
