"""The games of a round's clients: every coalition trained once, then looked up."""

import dataclasses
import io
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng, shapley
from fedsvp_jax.algorithm import (
    coalitions,
    estimators,
    evaluation,
    local_training,
)
from fedsvp_jax.algorithm.local_training import Draws, local_update
from fedsvp_jax.algorithm.state import ServerState
from fedsvp_jax.federation import Program
from fedsvp_jax.run.files import replace_file
from fedsvp_jax.structs import Array, Rows, Weights
from fedsvp_jax.tree import cell_of

from .in_run import in_run

_NAMES = ("additive", "leave_one_out", "paired", "orders", "in_run", "equal")
_ALLOWED = {"in_run": ("1", "2"), "equal": ("0",)}  # values of M


class Compared(NamedTuple):
    """An estimator of `--shapley`, `orders`, `in_run` or `equal`, and its number M."""

    name: str
    number: int

    @classmethod
    def named(cls, text: str) -> "Compared":
        """From NAME:M.

        Raises:
          ValueError: it is no such text, or M does not fit the estimator.
        """
        name, _, number = text.partition(":")
        if name not in _NAMES or not number.isdigit():
            raise ValueError(
                f"estimators must be {':M, '.join(_NAMES)}:M with a number M, got "
                f"{text!r}"
            )
        one = cls(name, int(number))
        if number not in _ALLOWED.get(name, (number,)):
            needs = " or ".join(_ALLOWED[name])
            raise ValueError(f"{name}:M needs M of {needs}, got {text!r}")
        if name == "orders" and one.number < 1:
            raise ValueError(f"orders:M needs M of at least 1, got {text!r}")
        if name not in ("orders", *_ALLOWED):
            chosen = shapley.ShapleySettings(shapley=name, shapley_trainings=one.number)
            shapley.check_settings(chosen, shapley.MAX_EXACT)
        return one

    def __str__(self) -> str:
        return f"{self.name}:{self.number}"


class Recorded(NamedTuple):
    """What one client's coalitions are worth, all of them trained once."""

    client: Array  # () int32
    logits: Array  # (2**N, v, c): of every coalition's model, by bitmask
    counts: Array  # (N,) int32: training examples by attribute
    steps: Array  # (2**N,) int32: SGD steps of each training
    in_run: Array  # (2, N): values within the local training, of first, second order


def save(path: pathlib.Path, games: Sequence[Recorded]) -> None:
    """Writes the games of a round's clients as one file, whole or not at all."""
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *games)
    content = io.BytesIO()
    np.savez(content, **stacked._asdict())
    path.parent.mkdir(exist_ok=True)
    replace_file(path, content.getvalue())


def load(path: pathlib.Path) -> list[Recorded]:
    """The games of `save`.

    Raises:
      ValueError: the file is damaged.
    """
    try:
        with np.load(path) as file:
            stacked = Recorded(**file)
    except (ValueError, TypeError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is damaged ({error}): remove it and run with --resume"
        ) from None
    return [cell_of(stacked, index) for index in range(len(stacked.client))]


@dataclasses.dataclass(frozen=True)
class RecordedValidation(evaluation.Validation):
    """Validation of models that are named by their coalition's bitmask."""

    recorded: Array | None = None  # (2**N, v, c) logits

    def logits(self, params: Any, stats: Any) -> Array:
        """(v, c): those of the coalition with the bitmask `params`."""
        del stats
        return self.recorded[params]  # type: ignore[index]

    def utility(self, params: Any, stats: Any) -> Array:
        """() float32: the worth of that coalition's model."""
        return self.utility_of(self.logits(params, stats))

    def logits_shape(self, params: Any, stats: Any) -> tuple[int, int]:
        """(v, c)."""
        del params, stats
        _, validation, classes = self.recorded.shape  # type: ignore[union-attr]
        return validation, classes


def record(
    program: Program, state: ServerState, client_id: Array, key: Array
) -> Recorded:
    """Trains every coalition of a client, with the keys that a run uses."""
    plan, cell = program.plan, cell_of(program.cells, 0)
    examples, held = program.data.examples, cell_of(cell.split, client_id)
    number = plan.estimation.num_attributes
    attributes = examples.attributes[held.train]
    valid = jnp.arange(held.train.shape[0], dtype=jnp.int32) < held.num_train
    counts = jnp.zeros((number,), jnp.int32).at[attributes].add(valid.astype(jnp.int32))
    validation = evaluation.Validation(
        program.model,
        examples,
        held.validation,
        held.num_validation,
        batch_size=plan.estimation.validation_batch_size,
        lane_axes=(),
    )

    def one(coalition: Array) -> Array:
        trained = local_update(
            program.model,
            plan.recipe,
            cell.rates,
            Weights(state.params, state.stats),
            Rows(
                examples,
                held.train,
                coalitions.coalition_members(attributes, coalition, valid),
            ),
            Draws(prng.stream_key(key, prng.Stream.LOCAL_TRAINING, client_id)),
        )
        return validation.logits(*trained)

    rows = jnp.asarray(coalitions.coalition_rows(range(2**number), number))
    sizes = jnp.sum(jnp.where(rows, counts[None], 0), axis=1)
    per_epoch = local_training.steps_per_epoch(sizes, plan.recipe.batch_size)
    steps = plan.recipe.local_epochs * per_epoch
    values = [in_run(program, order, state, client_id, key)[1] for order in (1, 2)]
    logits = jax.lax.map(one, rows)
    return Recorded(client_id, logits, counts, steps, jnp.stack(values))


def play(program: Program, one: Compared, client: Recorded, key: Array) -> Any:
    """(Values, trainings, steps) of one estimator, looked up instead of trained."""
    plan = program.plan.estimation
    held = cell_of(cell_of(program.cells, 0).split, client.client)
    number = plan.num_attributes
    masks = coalitions.planned_coalitions(one.name, number)
    bits = 2 ** jnp.arange(number, dtype=jnp.int32)

    def mask_of(coalition: Array) -> Array:
        return jnp.sum(jnp.where(coalition, bits, 0))

    validation = RecordedValidation(
        program.model,
        program.data.examples,
        held.validation,
        held.num_validation,
        batch_size=plan.validation_batch_size,
        lane_axes=(),
        kind=plan.utility,
        recorded=client.logits,
    )
    broadcast = Weights(jnp.int32(0), {})
    game = estimators.Game(
        num_attributes=number,
        private_attribute=plan.private_attribute,
        groups=(coalitions.Group(1, tuple(masks)),),
        batch_size=1,
        start=broadcast,
        train=lambda coalition, _: Weights(mask_of(coalition), {}),
        validation=validation,
        counts=client.counts,
        empty=validation.utility(*broadcast)
        if plan.empty_utility == "initial"
        else jnp.float32(0),
    )
    trained = [client.steps[jnp.asarray(masks)]]
    if one.name in ("in_run", "equal"):
        found = without_trainings(one, game, client.in_run)
        return found, jnp.int32(0), jnp.int32(0)
    if one.name == "orders":
        _, exact = estimators.exact(game, key, 0)
        return by_orders(exact.utilities, client.steps, one.number, key)
    if one.name != "exact":
        drawn = coalitions.drawn_coalitions(
            one.name, key, game.held, one.number, plan.private_attribute
        )
        trained.append(client.steps[jax.vmap(mask_of)(drawn)])
    _, found = estimators.ESTIMATORS[one.name](game, key, one.number)
    steps = jnp.concatenate(trained)
    return found, jnp.sum(steps > 0) - 1, jnp.sum(steps) - client.steps[-1]


def without_trainings(
    one: Compared, game: estimators.Game, in_run: Array
) -> estimators.Values:
    """Estimates that need the local model and the broadcast one alone.

    What all n held attributes add is divided equally (`equal`). With `in_run` only
    U(broadcast model) - U(empty) is, and what the local training adds is divided as its
    steps say: of the loss, a value is the attribute's own within the run plus an equal
    share of what these do not explain; of the accuracy it is in proportion to them.
    """
    full = game.held.shape[0]
    held, number = game.held, jnp.maximum(jnp.sum(game.held.astype(jnp.float32)), 1)
    trained = game.validation.utility(jnp.int32(2**full - 1), {})
    total = game.worth(held, trained) - game.empty
    values = jnp.full((full,), total / number)
    if one.name == "in_run":
        values, explained = in_run[one.number - 1], jnp.sum(in_run[one.number - 1])
        gained = trained - game.validation.utility(*game.start)
        if game.validation.kind == "loss":
            values = values + (gained - explained) / number
        else:
            values = values * jnp.where(explained == 0, 0, gained / explained)
        values = values + (total - gained) / number
    return estimators.Values(jnp.where(held, values, 0))


def by_orders(utilities: Any, steps: Array, number: int, key: Array) -> Any:
    """(Values, trainings, steps) of random orders in a game that is known."""
    num_attributes = utilities.shape[0].bit_length() - 1
    bits = 2 ** jnp.arange(num_attributes, dtype=jnp.int32)

    def utility(coalition: Array) -> Array:
        return utilities[jnp.sum(jnp.where(coalition, bits, 0))]

    found = shapley.sampled_shapley(
        utility, num_attributes, num_permutations=number, key=key
    )
    orders = shapley.random_orders(num_attributes, number, key)
    asked = jnp.cumsum(bits[orders], axis=1)[:, :-1].ravel()
    trained = jnp.zeros(steps.shape, bool).at[asked].set(True) & (steps > 0)
    extra = jnp.where(trained, steps, 0)
    values = estimators.Values(found.values)
    return values, jnp.sum(trained), jnp.sum(extra)
