"""The plan of a round, its exchangeable parts, and what goes in and out of them.

A round has four parts. Two are values of `RoundPlan` that `federation.build` chooses;
the cohort and the server's step are functions, which settings steer:

    cohort        who takes part                     cohort.py
    ClientWork    from records to a noised upload    client_work.py
    Aggregator    from uploads to one update         aggregator.py
    server step   from the update to the next model  federated_round.py
"""

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import flax.struct
import jax.numpy as jnp
import optax

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.core import optimizers, prng
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
    iota,
)
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, make_mechanism
from fedsvp_jax.shapley.coalitions import EstimationPlan

from . import private_query
from .local_training import TrainingRates, TrainingRecipe


class Upload(NamedTuple):
    """A client's upload but its statistics; leaves (...) of one, or summed."""

    update: Params  # client minus server, or a gradient
    answer: list[Array]  # to the private query, [] without one


# What leaves a client, the mechanism's memory after it, and what the noise was.
Release = tuple[Upload, MechanismState, NoiseInfo]


class ClientWork(NamedTuple):
    """One kind of client.

    Attributes:
      prepare: the client's work before its update is clipped and noised; with
        `per_example` clips and noise are in the training.
      release: `(task, work, update)` -> what leaves; `update` is that of an `Upload`.
    """

    prepare: Callable[["Task"], "LocalWork"]
    release: Callable[["Task", "LocalWork", Params], Release]


class Aggregator(NamedTuple):
    """The server's rule that makes one update of a cohort's uploads.

    The sum of the weighted uploads is built lane by lane, so that no upload need be
    kept. One that has to see every upload says so.

    Attributes:
      encode: `(mechanism, upload, info)` -> the upload as it is sent.
      decode: `(mechanism, total, uploads, infos, valid)` -> the round's update and
        answer, from the sum of weighted uploads; `infos` and `valid` have a leading
        axis (K,). `uploads` are `Weights` with leaves (K, ...), update and statistics
        of each place, zeros in empty ones; None unless asked for. In `info` and
        `infos` what no noise hides is NaN (`NoiseInfo.visible_to_server`): an
        aggregator costs no ε, so it reads nothing that does.
      needs_uploads: whether `decode` reads `uploads`.
    """

    encode: Callable[[Mechanism, Upload, NoiseInfo], Upload]
    decode: Callable[..., Upload]
    needs_uploads: bool = False


@dataclasses.dataclass(frozen=True)
class RoundPlan:
    """The settings that are fixed when the round is compiled, and its parts."""

    mechanism: str
    work: ClientWork
    aggregator: Aggregator
    recipe: TrainingRecipe
    cohort_size: int
    cohorts: str
    num_clients: int
    estimation: EstimationPlan
    num_tested_attributes: int  # N; 0 where test examples' attributes are unknown
    differ_by_class: bool  # whether clients differ in their classes, and are no writers
    test_batch_size: int
    eval_every: int
    private_classes: tuple[int, ...]  # of the private attribute; () if it is no class
    query_parts: private_query.QueryParts  # see `private_query`; () without a query
    uniform_weights: bool
    server: optimizers.ServerSettings
    client: optimizers.ClientSettings
    client_chunk_size: int
    num_rounds: int
    known_trips: bool  # of loops over lanes; see `devices.target`
    norms_in_stages: bool  # see `core.tree` and `devices.target`


@flax.struct.dataclass
class Cell:
    """One run's values; a sweep stacks cells along a leading axis.

    Without `cohort`, row c of `split` is client c. With it, row k of `split` is the
    k-th client of `cohort`.
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
    validation: Examples | None  # the server's, which choose the best round


@flax.struct.dataclass
class ServerState:
    """The state that one round hands to the next."""

    params: Params
    stats: Params
    mechanism: MechanismState
    answer: list[Array]  # average of the last private queries, [] without one
    spent: Array  # (M,) int32: cost of the uploads so far by client, see Allowance
    admitted: Array  # (M,) bool: false keeps a client out of the cohort
    optimizer: optax.OptState | None  # the server's; None in FedAvg

    @property
    def weights(self) -> Weights:
        """The server's model."""
        return Weights(self.params, self.stats)


def rates_of_round(
    plan: RoundPlan, cell: Cell, round_num: Array | int
) -> TrainingRates:
    """The cell's rates with the learning rate that the schedule gives to a round."""
    first = cell.rates.learning_rate
    rate = optimizers.learning_rate(plan.client, first, plan.num_rounds, round_num)
    return cell.rates._replace(learning_rate=rate)


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
    at: prng.Address

    @cached_property
    def rates(self) -> TrainingRates:
        """The rates of the round."""
        return rates_of_round(self.plan, self.cell, self.at.round_num)

    @property
    def memory(self) -> MechanismState:
        """The client's scalars that the mechanism remembers."""
        return self.state.mechanism.of(self.at.client)


def rows_of(examples: Examples, split: Split, members: Array | bool = True) -> Rows:
    """A client's training examples; where `members` (m,) bool is given, only those."""
    places = iota(len(split.train))
    return Rows(examples, split.train, members & (places < split.num_train))


class Estimation(NamedTuple):
    """One client's PE result; the last four fields are None if it is exact."""

    utilities: Array | None  # (2**N,) float32, by coalition bitmask; exact only
    shapley_values: Array  # (N,) float32
    contribution_ratio: Array  # () float32: R, clipped to [0, 1]
    clipped: Array  # () bool: R left [0, 1] and was clipped
    degenerate: Array  # () bool: |sum of psi| < 1e-6, R = 1 by definition
    shapley_errors: Array | None = None  # (N,) float32: standard errors of the values
    shapley_margins: Array | None = None  # (N,) float32: half the 95 % interval
    ratio_error: Array | None = None  # () float32: standard error of the unclipped R
    ratio_margin: Array | None = None  # () float32: half its 95 % interval


class LocalWork(NamedTuple):
    """A client's work before its update is clipped and noised."""

    weights: Weights  # trained
    ratio: Array  # () float32: the released R
    estimation: Estimation | None = None
    private: Array | None = None  # (m,) bool: rows of P; None without a private query
    gradient: Params | None = None  # the upload; None: weights less broadcast ones


@flax.struct.dataclass
class ClientMetrics:
    """One client's part of a round; leading axis (K,) once gathered."""

    client_id: Array  # () int32, -1 for an empty place in the cohort
    num_examples: Array  # () int32
    update_l2: Array  # () float32: L2 norm of it before release clips and noises it;
    # of the gradient, where that is the upload
    weight: Array  # () float32: p_i of the average
    finite: Array  # () bool: whether the upload and statistics have a finite sum
    estimation: Estimation | None
    released_ratio: Array  # () float32: the R that the noise was made from
    noise: NoiseInfo


@flax.struct.dataclass
class RoundMetrics:
    """A round's record."""

    test_accuracy: Array  # () float32, nan in a round without evaluation
    test_loss: Array  # () float32, likewise
    private_accuracy: Array  # () float32: on the private attribute; nan if not known
    worst_tenth_accuracy: Array  # () float32: see `round_score.worst_tenth`
    # () float32: sqrt(d sum_i p_i^2 sigma_i^2); nan where uploads are not averaged
    aggregate_noise_l2: Array
    clients: ClientMetrics
    model_finite: Array  # () bool: the next model, as `tree.is_finite` says
    validation_accuracy: Array | None  # () float32; None without such examples
    validation_loss: Array | None  # () float32, likewise


def initial_state(
    model: Model, plan: RoundPlan, example: Array, cell: Cell
) -> ServerState:
    """The state before round 0; traceable in the cell."""
    params, stats = model.init(prng.stream_key(cell.root, prng.Stream.INIT), example)
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    answer = private_query.chosen(params, plan.query_parts) if plan.query_parts else []
    return ServerState(
        params=params,
        stats=stats,
        mechanism=mechanism.init(plan.num_clients),
        answer=[jnp.zeros_like(leaf) for leaf in answer],
        spent=jnp.zeros(plan.num_clients, jnp.int32),
        admitted=jnp.ones(plan.num_clients, bool),
        optimizer=None
        if optimizers.averages(plan.server)
        else optimizers.server_optimizer(plan.server).init(params),
    )
