"""Games that shapiq ships, whose values a formula gives: exact values and intervals."""

import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array, Weights
from fedsvp_jax.shapley import coalitions, estimators

PLAYERS, DRAWS = 8, 300


class Sum(NamedTuple):
    """A sum of unanimity games, its values, and a game near it that needs no trainings.

    worth: (2^N,) by bitmask. near: exact for none, one and all; pairs of players share
    the rest. values: (N,), sum over terms T with a of c_T/|T|.
    """

    worth: np.ndarray
    near: np.ndarray
    values: np.ndarray


def drawn(seed: int, number: int = PLAYERS, terms: int = 20) -> Sum:
    """The game of shapiq's `SOUM(number, terms, random_state=seed)`."""
    draw = np.random.default_rng(seed)
    weights = draw.random(terms) * 2 - 1
    sizes = draw.integers(0, number, terms, endpoint=True)
    rows = coalitions.coalition_rows(range(2**number), number)
    worth, values = np.zeros(len(rows)), np.zeros(number)
    for weight, size in zip(weights, sizes, strict=True):
        members = draw.choice(number, size, replace=False)
        worth += weight * rows[:, members].all(1)
        values[members] += weight / max(size, 1)
    alone, size = worth[2 ** np.arange(number)] - worth[0], rows.sum(1)
    lacking = worth[-1] - worth[0] - alone.sum()
    share = size * (size - 1) / (number * (number - 1))
    return Sum(worth, worth[0] + rows @ alone + share * lacking, values)


@jax.jit
def within(worth: Array, near: Array, values: Array, key: Array) -> Array:
    """The share of values within `additive`'s intervals, with N and 2N coalitions."""
    bits = 2 ** jnp.arange(PLAYERS, dtype=jnp.int32)

    def mask(row: Array) -> Array:
        return jnp.sum(jnp.where(row, bits, 0))

    game = estimators.Game(
        plan=coalitions.EstimationPlan(
            PLAYERS, 0, (coalitions.Group(1, (2**PLAYERS - 1,)),), 1
        ),
        batch_size=1,
        start=Weights(jnp.int32(0), {}),
        train=lambda row, _: Weights(mask(row), {}),
        validation=types.SimpleNamespace(  # type: ignore[arg-type]
            utility=lambda weights: worth[weights[0]], resolution=0.0
        ),
        counts=jnp.ones(PLAYERS, jnp.int32),
        empty=worth[0],
    )

    def utility(row: Array) -> Array:
        return near[mask(row)]

    blend = estimators.Surrogate(
        utility, *estimators.surrogate_values(utility, PLAYERS, key)
    )
    found = [
        estimators.corrected(game, blend, key, pairs)
        for pairs in (PLAYERS // 2, PLAYERS)
    ]
    held = [abs(one.values - values) <= one.margins + 1e-6 for one in found]
    return jnp.mean(jnp.stack(held), axis=1)


def test_intervals_hold_as_often_as_they_say() -> None:
    games = [drawn(seed) for seed in range(DRAWS)]
    stacked = (
        jnp.asarray(np.stack(part), jnp.float32) for part in zip(*games, strict=True)
    )
    keys = jax.random.split(jax.random.key(0), DRAWS)
    held = np.asarray(jax.vmap(within)(*stacked, keys)).mean(axis=0)
    assert np.all((held >= 0.93) & (held <= 0.97)), held
