"""Estimators of a game whose models are looked up, against the definition."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax import shapley
from fedsvp_jax.algorithm import estimators


class Table:
    """Stands for `evaluation.Validation`: a model is its coalition's bitmask."""

    resolution = 0.0

    def __init__(self, number: int, seed: int) -> None:
        keys = jax.random.split(jax.random.key(seed))
        self.table = jax.random.normal(keys[0], (2**number, 12, 3))
        self.labels = jax.random.randint(keys[1], (12,), 0, 3)

    def logits(self, params: Any, stats: Any) -> jax.Array:
        return self.table[params]

    def logits_shape(self, params: Any, stats: Any) -> tuple[int, ...]:
        return self.table.shape[1:]

    def utility_of(self, logits: jax.Array) -> jax.Array:
        return jnp.mean((jnp.argmax(logits, -1) == self.labels).astype(jnp.float32))

    def utility(self, params: Any, stats: Any) -> jax.Array:
        return self.utility_of(self.logits(params, stats))


def game_of(counts: list[int], private: int, seed: int) -> estimators.Game:
    number, held = len(counts), np.asarray(counts) > 0
    bits = 2 ** jnp.arange(number)
    masks = estimators.planned_coalitions("additive", number)
    return estimators.Game(
        num_attributes=number,
        private_attribute=private,
        groups=((1, tuple(masks)),),
        batch_size=1,
        start=(jnp.int32(0), {}),
        train=lambda coalition, _: (jnp.sum(jnp.where(coalition & held, bits, 0)), {}),
        validation=Table(number, seed),  # type: ignore[arg-type]
        counts=jnp.asarray(counts),
        empty=jnp.float32(0),
    )


@pytest.mark.parametrize(
    ("counts", "private", "number"),
    [([3, 9, 4, 6], 2, 2), ([3, 9, 4, 6], 0, 4), ([5, 0, 2, 7, 1], 1, 3)],
    ids=["two of four", "all of four", "the private one is not held"],
)
def test_leaving_one_out_puts_what_it_measures_in_the_place_of_the_blend(
    counts: list[int], private: int, number: int
) -> None:
    game, key = game_of(counts, private, seed=1), jax.random.key(7)
    _, blend = estimators._blend(game, key)
    _, found = jax.jit(lambda: estimators.leave_one_out(game, key, number))()
    left_out, rows = estimators.drawn_without_one(key, game.held, number, private)
    held = np.asarray(game.held)
    assert len(set(left_out.tolist())) == number
    assert not held[private] or left_out[0] == private
    all_rows = estimators.coalition_rows(range(2 ** len(counts)), len(counts))
    utilities = np.asarray(jax.vmap(blend.utility)(jnp.asarray(all_rows))).copy()
    lacking = np.asarray(
        [
            game.validation.utility(*game.train(row, 1)) - blend.utility(row)
            for row in rows
        ]
    )
    for row, lack in zip(np.asarray(rows), lacking - lacking.mean(), strict=True):
        utilities[(all_rows & held == row).all(axis=1)] += lack
    expected = shapley.exact_shapley(jnp.asarray(utilities))
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    assert abs(np.asarray(found.values - blend.values)[held]).max() > 1e-3
    np.testing.assert_array_equal(np.asarray(found.values)[~held], 0)


def test_leaving_one_out_of_two_needs_no_training() -> None:
    game = game_of([3, 0, 4], 0, seed=2)
    rows = estimators.drawn_without_one(jax.random.key(0), game.held, 2, 0)[1]
    assert not rows.any()
    _, found = estimators.leave_one_out(game, jax.random.key(0), 2)
    _, blend = estimators._blend(game, jax.random.key(0))
    np.testing.assert_allclose(found.values, blend.values, atol=1e-6)
