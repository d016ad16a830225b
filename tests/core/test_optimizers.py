"""Optimisers of server and clients against independent numpy; what is refused."""

import dataclasses
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import digits, small

from fedsvp_jax.core import optimizers
from fedsvp_jax.core.optimizers import ServerSettings
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.federation import build
from fedsvp_jax.models import aggregation
from fedsvp_jax.round.state import rates_of_round

UPDATES = np.asarray([[1.0, -2.0], [0.3, 0.0], [-0.5, 4.0], [0.25, 1e-4]], np.float32)
EMPTY = 2  # in this round nobody takes part


def by_hand(
    kind: str, rate: float, m: float, b1: float, b2: float, tau: float
) -> np.ndarray:
    """The sum of all steps, in float64."""
    moved, first = np.zeros(2), np.zeros(2)
    second = np.full(2, tau**2 if kind == "adagrad" else 0.0)
    taken = np.delete(UPDATES.astype(np.float64), EMPTY, axis=0)
    for t, update in enumerate(taken, 1):
        square = update**2
        if kind == "sgd":
            first = m * first + update
            moved += rate * first
        elif kind == "adagrad":
            second = second + square
            moved += rate * update / np.sqrt(second)
        else:
            first = b1 * first + (1 - b1) * update
            away = np.sign(second - square) * square  # yogi's
            adam = b2 * second + (1 - b2) * square
            second = adam if kind == "adam" else second - (1 - b2) * away
            mean, spread = first / (1 - b1**t), second / (1 - b2**t)
            moved += rate * mean / (np.sqrt(spread) + tau)
    return moved


@pytest.mark.parametrize("kind", ["sgd", "adam", "yogi", "adagrad"])
def test_the_servers_steps_are_the_formulas_and_an_empty_round_is_none(
    kind: str,
) -> None:
    numbers = (0.3, 0.5, 0.8, 0.95, 0.02)
    settings = ServerSettings(kind, *numbers)
    state = optimizers.server_optimizer(settings).init({"w": jnp.zeros(2)})
    moved = np.zeros(2)
    for number, update in enumerate(UPDATES):
        step, state = aggregation.optimizer_step(
            {"w": jnp.asarray(update)},
            state,
            settings,
            anyone=jnp.bool_(number != EMPTY),
        )
        moved = moved + np.asarray(step["w"])
    np.testing.assert_allclose(moved, by_hand(kind, *numbers), rtol=2e-5)


def test_a_servers_rate_is_one_for_sgd_and_a_hundredth_for_others() -> None:
    """Which servers average: the refusals of noise_bands in tests/test_refusals.py."""
    assert small().server_learning_rate == 1
    assert small(server_optimizer="yogi").server_learning_rate == 0.01


def test_learning_rates_by_round_are_the_formulas() -> None:
    t = np.arange(8)
    expected = {
        "constant": np.full(8, 0.4),
        "cosine": 0.4 * (1 + np.cos(np.pi * t / 8)) / 2,
        "exponential": 0.4 * 0.9**t,
    }
    told = {"learning_rate": 0.4, "learning_rate_decay": 0.9, "num_rounds": 8}
    for schedule, rates in expected.items():
        program = build([small(learning_rate_schedule=schedule, **told)], digits())
        of_round = partial(rates_of_round, program.plan, cell_of(program.cells, 0))
        found = [of_round(jnp.int32(number)).learning_rate for number in t]
        np.testing.assert_allclose(found, rates, rtol=1e-5)


def test_momentum_of_clients_is_taken_where_no_bound_is_granted_for_plain_sgd() -> None:
    """It is refused with `paper`: tests/test_refusals.py."""
    config = small(client_momentum=0.5)
    for change in (
        {"clipping": "update_clip"},
        {"clipping": "weight_clip"},
        {"clipping": "per_example"},
        {"mechanism": "none"},  # claims nothing
        {"mechanism": "dp_fedavg"},  # clips the update itself
    ):
        program = build([dataclasses.replace(config, **change)], digits())
        assert program.plan.recipe.momentum == 0.5
