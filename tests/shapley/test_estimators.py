"""Estimators of a game whose models are looked up, against the definition."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax import shapley
from fedsvp_jax.core.structs import Weights
from fedsvp_jax.shapley import coalitions, estimators, paired


class Table:
    """Stands for `evaluation.Validation`: a model is its coalition's bitmask."""

    resolution = 0.25

    def __init__(self, number: int, seed: int) -> None:
        keys = jax.random.split(jax.random.key(seed))
        self.table = jax.random.normal(keys[0], (2**number, 12, 3))
        self.labels = jax.random.randint(keys[1], (12,), 0, 3)

    def logits(self, weights: Any) -> jax.Array:
        return self.table[weights[0]]

    def logits_shape(self, weights: Any) -> tuple[int, ...]:
        return self.table.shape[1:]

    def utility_of(self, logits: jax.Array) -> jax.Array:
        return jnp.mean((jnp.argmax(logits, -1) == self.labels).astype(jnp.float32))

    def utility(self, weights: Any) -> jax.Array:
        return self.utility_of(self.logits(weights))


def game_of(counts: list[int], seed: int) -> estimators.Game:
    number, held = len(counts), np.asarray(counts) > 0
    bits = 2 ** jnp.arange(number)
    masks = tuple(coalitions.planned_coalitions("additive", number))
    groups = (coalitions.Group(1, masks[:1]), coalitions.Group(2, masks[1:]))
    groups = groups[: len(masks)]

    def train(coalition: jax.Array, group: coalitions.Group) -> Weights:
        """The coalition's model, or the empty one's from a batch of another size."""
        mask = jnp.sum(jnp.where(coalition, bits, 0))
        planned = jnp.where(mask == masks[0], 1, 2)
        wanted = jnp.where(jnp.isin(mask, jnp.asarray(masks)), planned, 3)
        mine = jnp.sum(jnp.where(coalition & held, bits, 0))
        return jnp.where(wanted == group.batch_size, mine, 0), {}

    return estimators.Game(
        plan=coalitions.EstimationPlan(number, 0, groups, 1),
        batch_size=3,
        start=(jnp.int32(0), {}),
        train=train,
        validation=Table(number, seed),  # type: ignore[arg-type]
        counts=jnp.asarray(counts),
        empty=jnp.float32(-0.5),
    )


def worths(game: estimators.Game) -> np.ndarray:
    """(2**N,) the true utilities, of models that are looked up."""
    masks = jnp.arange(2 ** len(game.counts)) & masks_of(game.present)
    utility = jax.jit(jax.vmap(lambda mask: game.validation.utility((mask, {}))))
    return np.where(masks > 0, utility(masks), -0.5)


def blended(
    game: estimators.Game, key: jax.Array
) -> tuple[Weights, estimators.Surrogate]:
    """What `_blend` finds, with the utility of every coalition, (2**N,), as data."""
    number = len(game.counts)
    rows = jnp.asarray(coalitions.coalition_rows(range(2**number), number))

    @jax.jit  # as one program; operation by operation takes longer
    def play() -> Any:
        trained, blend = estimators._blend(game, key)
        return trained, blend._replace(utility=jax.vmap(blend.utility)(rows))

    return play()


drawn_pairs = jax.jit(coalitions.drawn_pairs, static_argnums=2)


def masks_of(rows: Any) -> np.ndarray:
    rows = np.asarray(rows)
    return rows @ 2 ** np.arange(rows.shape[-1])


def test_planned_coalitions_and_their_rows() -> None:
    assert coalitions.planned_coalitions("exact", 3) == [1, 2, 3, 4, 5, 6, 7]
    for name in ("additive", "gp"):
        assert coalitions.planned_coalitions(name, 3) == [1, 2, 4, 7]
        assert coalitions.planned_coalitions(name, 1) == [1]
    rows = coalitions.coalition_rows([1, 6], 3)
    np.testing.assert_array_equal(rows, [[1, 0, 0], [0, 1, 1]])
    assert rows.dtype == bool and coalitions.coalition_rows([], 3).shape == (0, 3)


@pytest.mark.parametrize(
    "counts", [[3, 9, 4, 6], [5, 0, 2], [0, 7, 0]], ids=["all", "two held", "one held"]
)
def test_the_blend_mixes_the_logits_by_examples_and_by_pairs_of_them(
    counts: list[int],
) -> None:
    game, number = game_of(counts, seed=3), len(counts)
    trained, blend = blended(game, jax.random.key(0))
    held = sum(1 << a for a in range(number) if counts[a])
    assert trained[0] == held
    table, size = np.float64(game.validation.table), np.float64(counts)
    pairs = size.sum() ** 2 - (size**2).sum()
    utilities = []
    for row in coalitions.coalition_rows(range(2**number), number):
        mine = np.where(row, size, 0)
        share = mine / max(mine.sum(), 1)
        within = (mine.sum() ** 2 - (mine**2).sum()) / pairs if pairs else 1.0
        alone = sum(share[a] * table[(1 << a) & held] for a in range(number))
        mixed = (1 - within) * alone + within * table[held]
        worth = game.validation.utility_of(jnp.asarray(mixed, jnp.float32))
        utilities.append(float(worth) if mine.any() else -0.5)
    np.testing.assert_allclose(blend.utility, utilities, atol=1e-6)
    values = shapley.exact_shapley(jnp.asarray(utilities, jnp.float32))
    np.testing.assert_allclose(blend.values, values, atol=1e-6)
    np.testing.assert_array_equal(blend.standard_errors, 0)


@pytest.mark.parametrize("counts", [[5, 0, 2, 7, 1], [1, 0, 2], [2] * 11])
def test_pairs_correct_the_blend_by_what_it_lacks(counts: list[int]) -> None:
    """Of eleven attributes the blend's own error is added."""
    game, key, num_pairs = game_of(counts, 4), jax.random.key(5), 3
    held = np.asarray(counts) > 0
    trained, found = jax.jit(lambda: estimators.additive(game, key, 2 * num_pairs))()
    true, (_, surrogate) = worths(game), blended(game, key)
    assert trained[0] == masks_of(held)
    pairs, rows = drawn_pairs(key, held, num_pairs)
    halves = np.concatenate([pairs.coalitions, pairs.complements])
    known = halves.sum(axis=1, keepdims=True) < 2
    np.testing.assert_array_equal(rows, halves & ~known)
    masks = masks_of(rows)
    lack = np.where(masks > 0, true[masks] - np.asarray(surrogate.utility)[masks], 0)
    lack = jnp.asarray(lack[:num_pairs] - lack[num_pairs:], jnp.float32)
    expected = jax.jit(paired.correction)(pairs, held, lack, resolution=0.25)
    values = np.where(held, surrogate.values + expected.values, 0)
    np.testing.assert_allclose(found.values, values, atol=1e-5)
    error = expected.standard_error if held.sum() > 2 else 0
    errors = np.where(held, np.hypot(error, surrogate.standard_errors), 0)
    assert np.any(surrogate.standard_errors) == (len(counts) > shapley.MAX_EXACT)
    close = {"rtol": 1e-4, "atol": 1e-7}
    np.testing.assert_allclose(found.standard_errors, errors, **close)
    margins = paired.margin(found.standard_errors, num_pairs, jnp.asarray(held))
    np.testing.assert_allclose(found.margins, margins, rtol=1e-5)
    np.testing.assert_allclose(found.values.sum(), true[-1] + 0.5, atol=1e-5)
