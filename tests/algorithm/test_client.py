"""One client's round: every step has the inputs that its formula names."""

from functools import cache
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick_training import quick_training  # noqa: F401, a fixture
from small_runs import digits, small

from fedsvp_jax import prng, tree
from fedsvp_jax.algorithm import client, privacy_estimation
from fedsvp_jax.algorithm.state import ServerState, initial_state
from fedsvp_jax.algorithm.task import rows_of
from fedsvp_jax.federation import Program, build
from fedsvp_jax.prng import Address
from fedsvp_jax.structs import Array, Weights
from fedsvp_jax.tree import cell_of

ROW, CLIENT, WEIGHT, ROUND = 2, 4, 0.25, 3


pytestmark = pytest.mark.usefixtures("quick_training")


@cache
def program(**changes: Any) -> Program:
    return build([small(**changes)], digits())


def round_key() -> Array:
    return prng.round_key(prng.root_key(7), ROUND)


def trained_state(made: Program) -> ServerState:
    """A state whose every part can be told from every other's."""
    state = initial_state(made.model, made.plan, made.example, cell_of(made.cells, 0))
    return state.replace(params=jax.tree.map(lambda leaf: leaf + 0.01, state.params))


def whole(made: Program, client_id: int = CLIENT, row: int = ROW) -> Any:
    """What `client_round` gives for one client, its row being another's number."""
    return jax.jit(
        lambda client_id, row, weight: client.client_round(
            made.model,
            made.plan,
            cell_of(made.cells, 0),
            trained_state(made),
            made.data.examples,
            row,
            weight,
            Address(round_key(), client_id, jnp.int32(ROUND)),
        )
    )(jnp.int32(client_id), jnp.int32(row), jnp.float32(WEIGHT))


def assert_equal(*trees: Any) -> None:
    chex.assert_trees_all_close(*map(jax.tree.leaves, trees), rtol=2e-5, atol=1e-6)


def steps_by_hand(made: Program, *, release: bool) -> Any:
    """The same client, step by step: (upload, stats, memory, metrics as a dict)."""
    cell, state = cell_of(made.cells, 0), trained_state(made)
    held, examples = cell_of(cell.split, ROW), made.data.examples
    at = Address(round_key(), jnp.int32(CLIENT), jnp.int32(ROUND))
    mechanism, ratio, estimation, steps = made.mechanism, jnp.float32(1.0), None, []
    start = Weights(state.params, state.stats)
    if release:
        trained, estimation = privacy_estimation.estimate_contribution(
            *(made.model, made.plan.recipe, cell.rates, made.plan.estimation),
            *(start, examples, held, at),
        )
        ratio = client.released_ratio(estimation.contribution_ratio, cell.mechanism, at)
        steps = privacy_estimation.training_steps(
            made.plan.recipe,
            made.plan.estimation,
            examples,
            held,
            pairs_key=jax.random.key(0),
        )
    rates = cell.rates
    if mechanism.step_noise_std is not None:
        std = mechanism.step_noise_std(ratio, round_num=jnp.int32(ROUND))
        rates = rates.replace(step_noise_std=std)
    if mechanism.step_noise_std is not None or not release:
        trained = client.train(
            made.model,
            made.plan.recipe,
            rates,
            start,
            rows_of(examples, held),
            at,
        )
        per_epoch = held.num_train // made.plan.recipe.batch_size
        steps = [*steps, made.plan.recipe.local_epochs * per_epoch]
    update = jax.tree.map(jnp.subtract, trained[0], state.params)
    upload, memory, info = client.add_noise(
        mechanism,
        update,
        state.mechanism.of(CLIENT),
        num_examples=held.num_train,
        ratio=ratio,
        params=state.params,
        at=at,
    )
    return (
        (upload, trained[1]),
        memory,
        {
            "client_id": CLIENT,
            "num_examples": held.num_train,
            "weight": WEIGHT,
            "update_l2": tree.l2_norm(update),
            "released_ratio": ratio,
            "estimation": estimation,
            "noise": info,
            "steps": jnp.stack(steps),
        },
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"mechanism": "time_varying", "sensitivity": "update_clip"},
        {"mechanism": "fedsva", "contribution_release": "laplace", "epsilon": 0.9},
        {"mechanism": "fedsva", "sensitivity": "per_example", "l2_norm_clip": 0.5},
        {"mechanism": "reestimation", "l2_norm_clip": 0.05},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_a_round_is_estimate_train_noise_and_weigh(changes: dict[str, Any]) -> None:
    made = program(**changes)
    parts, (memory, metrics, kept) = whole(made)
    assert kept is None
    sent, expected_memory, expected = jax.jit(
        lambda: steps_by_hand(made, release=changes["mechanism"] == "fedsva")
    )()
    assert_equal(parts, jax.tree.map(lambda leaf: WEIGHT * leaf, sent))
    assert_equal(memory, expected_memory)
    for name, value in expected.items():
        assert_equal(getattr(metrics, name), value)
    assert metrics.finite
    assert (metrics.estimation is not None) == (changes["mechanism"] == "fedsva")


def test_an_empty_place_trains_on_nothing() -> None:
    made = program(mechanism="none")
    parts, (_, metrics, _) = whole(made, client_id=-1)
    assert metrics.client_id == -1 and metrics.num_examples == 0
    assert metrics.update_l2 == 0 and np.all(np.asarray(metrics.steps) == 0)
    assert not any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(parts))
