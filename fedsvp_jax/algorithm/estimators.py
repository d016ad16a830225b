"""Shapley values of one client's game: exact, or from few trainings with an error.

A game is played by attributes; a coalition's utility is that of the model trained on
the client's examples of these attributes. Every estimator trains the full coalition,
whose model is the local one, and returns it too.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import paired, shapley
from fedsvp_jax.algorithm.evaluation import Validation
from fedsvp_jax.structs import Array, Params

BLEND_ORDERS = 32  # random orders, each both ways, where N > shapley.MAX_EXACT
KNOWN = {"additive": 1, "paired": 0}  # attributes of a coalition whose worth is known
Trained: TypeAlias = tuple[Params, Params]  # params, stats
Groups: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]  # (batch size, bitmasks)


class Game(NamedTuple):
    """One client's game of a round.

    Attributes:
      num_attributes: N.
      groups: the coalitions that every client trains; the full one comes last.
      batch_size: B of every other training.
      start: the broadcast model.
      train: (coalition (N,) bool, batch size) -> the model trained on it.
      validation: the client's examples that utilities are measured on.
      counts: (N,) int32 training examples by attribute.
      empty: () float32, the utility of a coalition without examples.
    """

    num_attributes: int
    groups: Groups
    batch_size: int
    start: Trained
    train: Callable[[Array, int], Trained]
    validation: Validation
    counts: Array
    empty: Array

    @property
    def held(self) -> Array:
        """(N,) bool: the attributes of which the client has training examples."""
        return self.counts > 0

    def worth(self, coalition: Array, utility: Array) -> Array:
        """() the utility of a coalition's model, or the empty one's."""
        return jnp.where(jnp.any(coalition & self.held), utility, self.empty)


class Values(NamedTuple):
    """What an estimator finds; the last two are None where nothing was drawn."""

    values: Array  # (N,) float32
    utilities: Array | None = None  # (2**N,) float32, by bitmask; exact only
    standard_errors: Array | None = None  # (N,) float32
    margins: Array | None = None  # (N,) float32: half the 95 % interval


class Surrogate(NamedTuple):
    """A game near the real one that needs no training.

    No attribute, all, and coalitions of up to KNOWN attributes are worth as much in it
    as in the real game.
    """

    utility: Callable[[Array], Array]  # coalition (N,) bool -> () float32
    values: Array  # (N,) float32: its Shapley values, or estimates of them
    standard_errors: Array  # (N,) float32, of these estimates


def planned_coalitions(estimator: str, num_attributes: int) -> list[int]:
    """Bitmasks of the coalitions that every client trains, whatever is drawn."""
    full = 2**num_attributes - 1
    match estimator:
        case "exact":
            return list(range(1, full + 1))
        case "additive":
            return sorted({full, *(1 << a for a in range(num_attributes))})
        case _:
            return [full]


def coalition_rows(masks: Sequence[int], num_attributes: int) -> np.ndarray:
    """(len(masks), N) bool: the coalitions of bitmasks."""
    rows = [[mask >> a & 1 == 1 for a in range(num_attributes)] for mask in masks]
    return np.asarray(rows, bool).reshape(len(masks), num_attributes)


def _train_planned(
    game: Game,
    measure: Callable[[Array, Trained], Array],
    found: Array,
    slot: Callable[[int], int],
) -> tuple[Trained, Array]:
    """Trains the planned coalitions one after another, the full one last.

    Args:
      measure: (coalition, its model) -> what is kept of it.
      found: buffer for that, with a leading axis.
      slot: bitmask -> its place in the buffer.

    Returns:
      `(the full coalition's model, the buffer)`.
    """
    trained = game.start
    for batch_size, masks in game.groups:
        rows = jnp.asarray(coalition_rows(masks, game.num_attributes))
        slots = jnp.asarray([slot(mask) for mask in masks], jnp.int32)

        def train_coalition(
            turn: Array,
            carry: tuple[Trained, Array],
            batch_size: int = batch_size,
            rows: Array = rows,
            slots: Array = slots,
        ) -> tuple[Trained, Array]:
            trained = game.train(rows[turn], batch_size)
            return trained, carry[1].at[slots[turn]].set(measure(rows[turn], trained))

        trained, found = jax.lax.fori_loop(
            0, len(masks), train_coalition, (trained, found)
        )
    return trained, found


def exact(game: Game) -> tuple[Trained, Values]:
    """Exact values from all 2**N - 1 coalitions."""

    def measure(coalition: Array, trained: Trained) -> Array:
        return game.worth(coalition, game.validation.utility(*trained))

    utilities = jnp.full((2**game.num_attributes,), game.empty)
    trained, utilities = _train_planned(game, measure, utilities, lambda mask: mask)
    return trained, Values(shapley.exact_shapley(utilities), utilities)


def additive(game: Game, key: Array, num_pairs: int) -> tuple[Trained, Values]:
    """Each attribute is trained alone, and their logits are blended for the others.

        f_S = (1 - q_S) sum over a in S of (n_a/n_S) f_a + q_S f_all
        q_S = (n_S^2 - sum over S of n_a^2)/(n^2 - sum over all of n_a^2)

    with f the logits of the trained models on the validation examples and n the numbers
    of training examples. q is the share of the pairs of examples of different
    attributes that lie within S. The blend of one attribute or of all is the trained
    model's own. The values of the blended game are corrected by `num_pairs` pairs.

    Memory: (N + 1) v c float32 for v validation examples and c classes.

    Args:
      key: draws the pairs, and orders for the blended game if N > MAX_EXACT.
    """
    num_attributes, validation = game.num_attributes, game.validation
    full = 2**num_attributes - 1
    logits = jnp.zeros((num_attributes + 1, *validation.logits_shape(*game.start)))
    trained, logits = _train_planned(
        game,
        lambda _, trained: validation.logits(*trained),
        logits,
        lambda mask: num_attributes if mask == full else mask.bit_length() - 1,
    )
    counts = game.counts.astype(jnp.float32)

    def pairs_within(examples: Array) -> Array:
        return jnp.sum(examples) ** 2 - jnp.sum(examples**2)

    def utility(coalition: Array) -> Array:
        mine = jnp.where(coalition, counts, 0)
        share = mine / jnp.maximum(jnp.sum(mine), 1)
        all_pairs = pairs_within(counts)
        within = pairs_within(mine) / jnp.where(all_pairs > 0, all_pairs, 1)
        within = jnp.where(all_pairs > 0, within, 1)
        weights = jnp.append((1 - within) * share, within)
        blend = jnp.tensordot(
            weights, logits, axes=1, precision=jax.lax.Precision.HIGHEST
        )
        return game.worth(coalition, validation.utility_of(blend))

    if num_attributes <= shapley.MAX_EXACT:
        rows = jnp.asarray(coalition_rows(range(full + 1), num_attributes))
        utilities = jax.lax.map(utility, rows, batch_size=64)
        values = shapley.exact_shapley(utilities)
        errors = jnp.zeros_like(values)
    else:
        values, errors = shapley.sampled_shapley(
            utility,
            num_attributes,
            num_permutations=BLEND_ORDERS,
            key=jax.random.fold_in(key, 1),
            both_ways=True,
        )
    blend = Surrogate(utility, values, errors)
    return trained, _corrected("additive", game, blend, key, num_pairs)


def complementary(game: Game, key: Array, num_pairs: int) -> tuple[Trained, Values]:
    """From `num_pairs` random pairs of complementary coalitions alone.

    The surrogate is the straight line from U(empty) to U(all) by number of attributes.
    """
    trained, found = _train_planned(
        game,
        lambda _, trained: game.validation.utility(*trained),
        jnp.zeros((1,)),
        lambda _: 0,
    )
    held = game.held
    number = jnp.maximum(jnp.sum(held.astype(jnp.float32)), 1)
    rise = (game.worth(held, found[0]) - game.empty) / number

    def utility(coalition: Array) -> Array:
        return game.empty + rise * jnp.sum((coalition & held).astype(jnp.float32))

    values = jnp.where(held, rise, 0)
    line = Surrogate(utility, values, jnp.zeros_like(values))
    return trained, _corrected("paired", game, line, key, num_pairs)


def drawn_coalitions(
    estimator: str, key: Array, held: Array, num_pairs: int
) -> tuple[paired.Pairs, Array]:
    """The pairs, and (2P, N) bool: what is trained of them, the complements last.

    A row is empty where the worth of the coalition is known without a training.
    """
    pairs = paired.draw_pairs(jax.random.fold_in(key, 0), held, num_pairs)
    rows = jnp.concatenate([pairs.coalitions, pairs.complements])
    size = jnp.sum(rows.astype(jnp.int32), axis=1, keepdims=True)
    return pairs, rows & (size > KNOWN[estimator])


def _corrected(
    estimator: str, game: Game, surrogate: Surrogate, key: Array, num_pairs: int
) -> Values:
    """The surrogate's values plus an unbiased estimate of what they lack."""
    held, validation = game.held, game.validation
    pairs, rows = drawn_coalitions(estimator, key, held, num_pairs)

    def lack(turn: Array, lacking: Array) -> Array:
        utility = validation.utility(*game.train(rows[turn], game.batch_size))
        more = game.worth(rows[turn], utility) - surrogate.utility(rows[turn])
        return lacking.at[turn].set(jnp.where(jnp.any(rows[turn]), more, 0))

    lacking = jnp.zeros((2 * num_pairs,))
    if num_pairs > 0:
        lacking = jax.lax.fori_loop(0, 2 * num_pairs, lack, lacking)
    found = paired.correction(
        pairs,
        held,
        lacking[:num_pairs] - lacking[num_pairs:],
        resolution=validation.resolution,
    )
    # With one attribute more than that, only the full coalition is left; it is known.
    unknown = jnp.sum(held.astype(jnp.int32)) > KNOWN[estimator] + 1
    error = jnp.where(unknown, found.standard_error, 0)
    errors = jnp.where(held, jnp.hypot(error, surrogate.standard_errors), 0)
    return Values(
        values=jnp.where(held, surrogate.values + found.values, 0),
        standard_errors=errors,
        margins=paired.margin(errors, num_pairs),
    )
