"""Shapley values of one client's game: exact, or from few trainings with an error.

A game is played by attributes; a coalition's utility is that of the model trained on
the client's examples of these attributes. Every estimator trains the full coalition,
whose model is the local one, and returns it too.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax import shapley
from fedsvp_jax.core.float32 import reciprocal
from fedsvp_jax.core.structs import Array, Weights
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.devices import lanes
from fedsvp_jax.models.evaluation import Validation

from . import paired, residual_process
from .coalitions import EstimationPlan, Group, coalition_rows, drawn_pairs

Measured = tuple[Weights, Array]  # models, and what was measured of them
BLEND_ORDERS = 128  # random orders, each both ways, where N > shapley.MAX_EXACT


class Game(NamedTuple):
    """One client's game in a round.

    Attributes:
      plan: N, the coalitions that every client trains, how many train side by side.
      batch_size: B of the trainings that are drawn or designed.
      start: the broadcast model.
      train: (coalition (N,) bool, as one of a group) -> the model trained on it.
      validation: the client's examples that utilities are measured on.
      counts: (N,) int32 training examples by attribute.
      empty: () float32, the utility of a coalition without examples.
    """

    plan: EstimationPlan
    batch_size: int
    start: Weights
    train: Callable[[Array, Group], Weights]
    validation: Validation
    counts: Array
    empty: Array

    @property
    def present(self) -> Array:
        """(N,) bool: the attributes of which the client has training examples."""
        return self.counts > 0

    def worth(self, coalition: Array, utility: Array) -> Array:
        """() the utility of a coalition's model, or the empty one's."""
        return jnp.where(jnp.any(coalition & self.present), utility, self.empty)


class Values(NamedTuple):
    """An estimator's result; the last two are None if it is exact."""

    values: Array  # (N,) float32
    utilities: Array | None = None  # (2**N,) float32, by bitmask; exact only
    standard_errors: Array | None = None  # (N,) float32
    margins: Array | None = None  # (N,) float32: half the 95 % interval


Estimate = tuple[Weights, Values]  # the full coalition's model, and the values


class Surrogate(NamedTuple):
    """A game near the real one that needs no training.

    No attribute, all, and single attributes are worth as much in it as in the real
    game.
    """

    utility: Callable[[Array], Array]  # coalition (N,) bool -> () float32
    values: Array  # (N,) float32: its Shapley values, or estimates of them
    standard_errors: Array  # (N,) float32, of these estimates


def _train_planned(
    game: Game,
    measure: Callable[[Array, Weights], Array],
    results: Array,
    slot: Callable[[int], int],
) -> Measured:
    """Trains the planned coalitions of each group in turn, the full one last.

    The result of `measure` for a coalition goes to `results[slot(bitmask)]`.
    """
    trained = game.start
    for group in game.plan.groups:
        rows = jnp.asarray(coalition_rows(group.masks, game.plan.num_attributes))
        slots = jnp.asarray([slot(mask) for mask in group.masks], jnp.int32)
        trained, measured = _train_rows(game, rows, group, measure)
        results = results.at[slots].set(measured)
    return trained, results


def _train_rows(
    game: Game, rows: Array, group: Group, measure: Callable[[Array, Weights], Array]
) -> Measured:
    """Trains coalitions in turn: `(the last model, all that was measured)`.

    Chunks of `num_parallel` stacked models follow one another. The first is filled up
    with copies of the first coalition. So the last coalition, whose model may be the
    local one, ends the last chunk. Memory holds the models, gradients and activations
    of one chunk of every client that runs beside this one, and all that is measured.
    Lanes whose own steps are done idle.
    """

    def train_and_measure(row: Array) -> Measured:
        trained = game.train(row, group)
        return trained, measure(row, trained)

    if game.plan.num_parallel == 1:
        return jax.lax.scan(lambda _, row: train_and_measure(row), game.start, rows)
    number = len(rows)
    chunk = min(game.plan.num_parallel, number)
    missing = -number % chunk
    filled = jnp.concatenate([jnp.repeat(rows[:1], missing, axis=0), rows])

    def turn(_: Weights, rows: Array) -> Measured:
        models, measured = lanes.stacked(train_and_measure, rows)
        return cell_of(models, -1), measured

    if chunk == number:
        return turn(game.start, rows)
    chunks = filled.reshape(-1, chunk, rows.shape[1])
    trained, measured = jax.lax.scan(turn, game.start, chunks)
    return trained, measured.reshape(-1, *measured.shape[2:])[missing:]


def exact(game: Game, key: Array, number: int) -> Estimate:
    """Exact values from all 2**N - 1 coalitions; nothing is drawn."""

    utilities = jnp.full((2**game.plan.num_attributes,), game.empty)
    trained, utilities = _train_planned(
        game,
        lambda row, trained: game.worth(row, game.validation.utility(trained)),
        utilities,
        lambda mask: mask,
    )
    return trained, Values(shapley.exact_shapley(utilities), utilities)


def _blend(game: Game, key: Array) -> tuple[Weights, Surrogate]:
    """Each attribute is trained alone, and their logits are blended for the others.

        f_S = (1 - q_S) sum over a in S of (n_a/n_S) f_a + q_S f_all
        q_S = (n_S^2 - sum over S of n_a^2)/(n^2 - sum over all of n_a^2)

    with f the logits of the trained models on the validation examples and n the numbers
    of training examples. q is the share of the pairs of examples of different
    attributes that lie within S. The blend of one attribute or of all is the trained
    model's own.

    Memory: (N + 1) v c float32 for v validation examples and c classes, twice at most.
    """
    num_attributes, validation = game.plan.num_attributes, game.validation
    full = 2**num_attributes - 1
    logits = jnp.zeros((num_attributes + 1, *validation.logits_shape(game.start)))
    trained, logits = _train_planned(
        game,
        lambda _, trained: validation.logits(trained),
        logits,
        lambda mask: num_attributes if mask == full else mask.bit_length() - 1,
    )
    counts = game.counts.astype(jnp.float32)

    def pairs_within(examples: Array) -> Array:
        return jnp.sum(examples) ** 2 - jnp.sum(examples**2)

    def utility(coalition: Array) -> Array:
        member_counts = jnp.where(coalition, counts, 0)
        share = member_counts * reciprocal(jnp.maximum(jnp.sum(member_counts), 1))
        all_pairs = pairs_within(counts)
        within = pairs_within(member_counts) * reciprocal(jnp.maximum(all_pairs, 1))
        within = jnp.where(all_pairs > 0, within, 1)
        weights = jnp.append((1 - within) * share, within)
        blend = jnp.tensordot(
            weights, logits, axes=1, precision=jax.lax.Precision.HIGHEST
        )
        return game.worth(coalition, validation.utility_of(blend))

    return trained, Surrogate(utility, *surrogate_values(utility, num_attributes, key))


def surrogate_values(
    utility: Callable[[Array], Array], number: int, key: Array
) -> shapley.SampledValues:
    """A surrogate's values: exact to N = 10, else by random orders, with errors."""
    if number > shapley.MAX_EXACT:
        return shapley.sampled_shapley(
            utility,
            number,
            num_permutations=BLEND_ORDERS,
            key=jax.random.fold_in(key, 1),
        )
    rows = jnp.asarray(coalition_rows(range(2**number), number))
    values = shapley.exact_shapley(jax.lax.map(utility, rows, batch_size=64))
    return shapley.SampledValues(values, jnp.zeros_like(values))


def additive(game: Game, key: Array, number: int) -> Estimate:
    """The values of the blended game, corrected by number/2 random pairs."""
    trained, blend = _blend(game, key)
    return trained, corrected(game, blend, key, number // 2)


def gaussian_process(game: Game, key: Array, number: int) -> Estimate:
    """The values of the blended game, corrected by `residual_process`.

    It trains `number` coalitions of its design; the key orders the attributes.
    """
    trained, blend = _blend(game, key)
    rows = residual_process.rows(key, game.present, number)
    correction = residual_process.correction(
        key, game.present, _lacking(game, blend, rows), game.validation.resolution
    )
    errors = correction.standard_errors
    if len(game.counts) > shapley.MAX_EXACT:  # else the blend's values are exact
        errors = jnp.where(game.present, jnp.hypot(errors, blend.standard_errors), 0)
    margins = residual_process.DEVIATIONS * errors
    values = jnp.where(game.present, blend.values + correction.values, 0)
    return trained, Values(values, standard_errors=errors, margins=margins)


def _lacking(game: Game, surrogate: Surrogate, rows: Array) -> Array:
    """(m,) U of the trained coalitions less the surrogate's; 0 for an empty row."""
    if not len(rows):
        return jnp.zeros((0,))
    group = Group(game.batch_size, (), game.plan.groups[-1].most_steps)

    def measure(row: Array, trained: Weights) -> Array:
        utility = game.worth(row, game.validation.utility(trained))
        difference = utility - surrogate.utility(row)
        return jnp.where(jnp.any(row), difference, 0)

    return _train_rows(game, rows, group, measure)[1]


def corrected(game: Game, surrogate: Surrogate, key: Array, num_pairs: int) -> Values:
    """The surrogate's values plus an unbiased estimate of what they lack."""
    present, validation = game.present, game.validation
    pairs, rows = drawn_pairs(key, present, num_pairs)
    lacking = _lacking(game, surrogate, rows)
    correction = paired.correction(
        pairs,
        present,
        lacking[:num_pairs] - lacking[num_pairs:],
        resolution=validation.resolution,
    )
    # With two attributes, all coalitions are known.
    error = jnp.where(jnp.sum(present) > 2, correction.standard_error, 0)
    errors = jnp.where(present, jnp.hypot(error, surrogate.standard_errors), 0)
    return Values(
        values=jnp.where(present, surrogate.values + correction.values, 0),
        standard_errors=errors,
        margins=paired.margin(errors, num_pairs, present),
    )


# (game, key, number of coalitions beyond the planned ones)
ESTIMATORS: Mapping[str, Callable[[Game, Array, int], Estimate]] = {
    "exact": exact,
    "additive": additive,
    "gp": gaussian_process,
}
