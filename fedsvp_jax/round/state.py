"""The inputs of a round, the task of a client in it, and the results of both."""

import dataclasses
from functools import cached_property
from typing import Any, NamedTuple

import flax.struct
import jax.numpy as jnp
import optax

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.core import optimizers, prng
from fedsvp_jax.core.optimizers import ClientSettings, ServerSettings
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.structs import (
    Array,
    Examples,
    MechanismState,
    Model,
    NoiseInfo,
    Params,
    Rows,
    Split,
    Weights,
)
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, make_mechanism
from fedsvp_jax.round import private_query
from fedsvp_jax.round.local_training import TrainingRates, TrainingRecipe
from fedsvp_jax.round.privacy_estimation import Estimation
from fedsvp_jax.round.private_query import QueryParts
from fedsvp_jax.shapley.coalitions import EstimationPlan


@dataclasses.dataclass(frozen=True)
class ScorePlan:
    """The server's scores after a round: the settings that are fixed."""

    num_tested_attributes: int  # N; 0 where test examples' attributes are unknown
    differ_by_class: bool  # whether clients do, and not by writer
    test_batch_size: int
    eval_every: int
    client_values: EstimationPlan | None = None  # of the cohort's; None: not computed


@dataclasses.dataclass(frozen=True)
class RoundPlan:
    """The settings that are fixed when the round is compiled."""

    mechanism: str
    recipe: TrainingRecipe
    cohort_size: int
    cohorts: str
    num_clients: int
    estimation: EstimationPlan
    scores: ScorePlan
    private_classes: tuple[int, ...]  # of the private attribute; () if it is no class
    query_parts: QueryParts | None  # see `private_query`; None without a query
    uniform_weights: bool
    server: ServerSettings
    client: ClientSettings
    client_chunk_size: int
    num_rounds: int
    known_trips: bool = False  # of loops over lanes; see `devices.target`


@flax.struct.dataclass
class Cell:
    """One run's values; a sweep stacks cells along a leading axis.

    Row c of `split` is client c, and the round draws its cohort. Where `cohort` is
    given, row k is the cohort's client k.
    """

    root: prng.Keys  # of () keys
    split: Split
    rates: TrainingRates
    mechanism: MechanismConfig
    allowance: Allowance  # who may take part, so that the promise is kept
    cohort: Array | None = None  # (K,) int32: drawn by the host, ascending, then -1


class Data(NamedTuple):
    """The examples of a run."""

    examples: Examples  # all clients', of training and validation
    test: Examples  # the server's
    validation: Examples | None = None  # the server's, which choose the best round


@flax.struct.dataclass
class ServerState:
    """The state that one round hands to the next."""

    params: Params
    stats: Params
    mechanism: MechanismState
    answer: list[Array]  # average of the last private queries, [] without one
    spent: Array  # (M,) int32: cost of the uploads so far by client, see Allowance
    admitted: Array  # (M,) bool: false keeps a client out of the cohort
    optimizer: optax.OptState | None = None  # the server's; None in FedAvg


def rates_of_round(
    plan: RoundPlan, cell: Cell, round_num: Array | int
) -> TrainingRates:
    """The cell's rates with the learning rate that the schedule gives to a round."""
    first: Any = cell.rates.learning_rate  # traced, which optax allows
    if plan.client.learning_rate_schedule == "constant":
        return cell.rates
    if plan.client.learning_rate_schedule == "cosine":
        schedule = optax.cosine_decay_schedule(first, plan.num_rounds)
    else:
        schedule = optax.exponential_decay(first, 1, plan.client.learning_rate_decay)
    rate = schedule(jnp.asarray(round_num).astype(jnp.float32))
    return dataclasses.replace(cell.rates, learning_rate=rate)


@dataclasses.dataclass(frozen=True)
class Task:
    """The inputs of one client's work in a round."""

    model: Model
    plan: RoundPlan
    cell: Cell
    mechanism: Mechanism  # of the plan and the cell
    state: ServerState  # as it was broadcast
    examples: Examples
    split: Split  # the client's row of the federation's
    at: Address

    @cached_property
    def rates(self) -> TrainingRates:
        """The rates of the round."""
        return rates_of_round(self.plan, self.cell, self.at.round_num)

    @property
    def broadcast(self) -> Weights:
        """The server's model."""
        return Weights(self.state.params, self.state.stats)


def rows_of(examples: Examples, split: Split, members: Array | bool = True) -> Rows:
    """A client's training examples; where `members` (m,) bool is given, only those."""
    places = jnp.arange(split.train.shape[0], dtype=jnp.int32)
    return Rows(examples, split.train, members & (places < split.num_train))


class LocalWork(NamedTuple):
    """A client's work before anything is clipped and noised."""

    weights: Weights  # trained
    private: Array | None  # (m,) bool: rows of P; None without a private query
    estimation: Estimation | None
    ratio: Array  # () float32: the released R
    steps: Array  # (T,) int32: SGD steps that each of its trainings needs


@flax.struct.dataclass
class ClientMetrics:
    """One client's part of a round; leading axis (K,) once gathered."""

    client_id: Array  # () int32, -1 for an empty place in the cohort
    num_examples: Array  # () int32
    update_l2: Array  # () float32: L2 norm of the update before the noise
    weight: Array  # () float32: p_i of the average
    finite: Array  # () bool: the upload and statistics, as `tree.is_finite` says
    estimation: Estimation | None
    released_ratio: Array  # () float32: the R that the noise was made from
    noise: NoiseInfo
    steps: Array  # (T,) int32: SGD steps that each of its trainings needs
    value: Array | None = None  # () float32: of the upload; None: not computed
    value_margin: Array | None = None  # () float32: half its 95 % interval; None: exact


@flax.struct.dataclass
class RoundMetrics:
    """A round's record."""

    test_accuracy: Array  # () float32, nan in a round without evaluation
    test_loss: Array  # () float32, likewise
    private_accuracy: Array  # () float32: on the private attribute; nan if not known
    worst_tenth_accuracy: Array  # () float32: see `round_score.worst_tenth`
    aggregate_noise_l2: Array  # () float32: sqrt(d sum_i p_i^2 sigma_i^2) of uploads
    steps_run: Array  # () int32: SGD steps of all lanes, padding counted
    clients: ClientMetrics
    model_finite: Array  # () bool: the next model, as `tree.is_finite` says
    validation_accuracy: Array | None = None  # () float32; None without such examples
    validation_loss: Array | None = None  # () float32, likewise


def initial_state(
    model: Model, plan: RoundPlan, example: Array, cell: Cell
) -> ServerState:
    """The state before round 0; traceable in the cell."""
    key = prng.stream_key(cell.root, prng.Stream.INIT)
    params, stats = model.init(key, example)
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    parts = (
        []
        if plan.query_parts is None
        else private_query.chosen(params, plan.query_parts)
    )
    return ServerState(
        params=params,
        stats=stats,
        mechanism=mechanism.init(plan.num_clients),
        answer=[jnp.zeros_like(leaf) for leaf in parts],
        spent=jnp.zeros((plan.num_clients,), jnp.int32),
        admitted=jnp.ones((plan.num_clients,), bool),
        optimizer=None
        if optimizers.averages(plan.server)
        else optimizers.server_optimizer(plan.server).init(params),
    )
