"""What a client works on in a round."""

import dataclasses
from functools import cached_property

import jax.numpy as jnp

from fedsvp_jax import optimizers
from fedsvp_jax.algorithm.local_training import TrainingRates
from fedsvp_jax.algorithm.state import Cell, RoundPlan, ServerState
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.prng import Address
from fedsvp_jax.structs import Array, Examples, Model, Rows, Split, Weights


def rates_of_round(
    plan: RoundPlan, cell: Cell, round_num: Array | int
) -> TrainingRates:
    """The cell's rates with the learning rate that the schedule gives to a round."""
    schedule = optimizers.client_rate(
        plan.client, cell.rates.learning_rate, plan.num_rounds
    )
    if schedule is None:
        return cell.rates
    rate = schedule(jnp.asarray(round_num).astype(jnp.float32))
    return dataclasses.replace(cell.rates, learning_rate=rate)


@dataclasses.dataclass(frozen=True)
class Task:
    """A client's part of a round: what it works on, and where."""

    model: Model
    plan: RoundPlan
    cell: Cell
    mechanism: Mechanism  # of the plan and the cell
    state: ServerState  # as it was broadcast
    examples: Examples
    held: Split  # the client's row of the federation's
    at: Address

    @cached_property
    def rates(self) -> TrainingRates:
        """Of the round."""
        return rates_of_round(self.plan, self.cell, self.at.round_num)

    @property
    def broadcast(self) -> Weights:
        """The server's model."""
        return Weights(self.state.params, self.state.stats)


def rows_of(examples: Examples, held: Split, among: Array | bool = True) -> Rows:
    """A client's training examples; with `among` (m,) bool these of them alone."""
    places = jnp.arange(held.train.shape[0], dtype=jnp.int32)
    return Rows(examples, held.train, among & (places < held.num_train))
