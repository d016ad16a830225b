"""One federated round as one pure function: the module that joins the others.

    cohort -> local_update -> contribution_ratio -> mechanism.update -> aggregate
           -> evaluate

`federated_round` runs inside `shard_map` over the mesh axis `clients`; it is
deterministic in `(state, cell, round_num)` and its bits do not depend on the
number of devices or on the order in which the cohort is named.
"""

import dataclasses

import flax.struct
import jax
import jax.numpy as jnp
import optax

from fedsvp_jax import (
    aggregation,
    evaluation,
    lanes,
    local_training,
    privacy_estimation,
    prng,
    size_buckets,
)
from fedsvp_jax.data import cohort
from fedsvp_jax.local_training import TrainingRates, TrainingRecipe
from fedsvp_jax.mechanisms import (
    MechanismConfig,
    make_mechanism,
    noise,
    release_contribution,
)
from fedsvp_jax.privacy_estimation import CoalitionPlan, Estimation
from fedsvp_jax.structs import (
    Array,
    Examples,
    MechanismState,
    Model,
    NoiseInfo,
    Params,
    Split,
)


@dataclasses.dataclass(frozen=True)
class RoundPlan:
    """What is fixed when the round is compiled."""

    mechanism: str
    recipe: TrainingRecipe
    cohort_size: int
    num_clients: int
    num_attributes: int
    private_attribute: int
    coalitions: CoalitionPlan
    empty_utility: str
    uniform_weights: bool
    client_chunk_size: int
    validation_batch_size: int
    test_batch_size: int
    eval_every: int
    num_rounds: int


@flax.struct.dataclass
class Cell:
    """One run's values; a sweep stacks cells along a leading axis.

    Row c of `split` is client c, and the round draws its cohort; or, where `cohort`
    is there, row k is what the cohort's client k holds.
    """

    root: Array  # () key
    split: Split
    rates: TrainingRates
    mechanism: MechanismConfig
    max_uploads: Array  # () int32: participation cap per client
    cohort: Array | None = None  # (K,) int32: drawn by the host, ascending, then -1


@flax.struct.dataclass
class ServerState:
    """What one round hands to the next."""

    params: Params
    stats: Params
    mechanism: MechanismState
    uploads: Array  # (M,) int32: uploads so far by client
    admitted: Array  # (M,) bool: false keeps a client out of the cohort


@flax.struct.dataclass
class ClientMetrics:
    """One client's part of a round; leading axis (K,) once gathered."""

    client_id: Array  # () int32, -1 for an empty place in the cohort
    num_examples: Array  # () int32
    update_l2: Array  # () float32: L2 norm of the update before the noise
    weight: Array  # () float32: p_i of the average
    finite: Array  # () bool: every number of the upload and statistics is finite
    estimation: Estimation | None
    released_ratio: Array  # () float32: the R that the noise was made from
    noise: NoiseInfo
    steps: Array  # (T,) int32: SGD steps that each of its trainings needs


@flax.struct.dataclass
class RoundMetrics:
    """A round's record."""

    test_accuracy: Array  # () float32, nan in a round without evaluation
    test_loss: Array  # () float32, likewise
    aggregate_noise_l2: Array  # () float32: sqrt(d sum_i p_i^2 sigma_i^2) of uploads
    steps_run: Array  # () int32: SGD steps of all lanes, padding counted
    clients: ClientMetrics
    model_finite: Array  # () bool: every number of the next model is finite


def initial_state(
    model: Model, plan: RoundPlan, example: Array, cell: Cell
) -> ServerState:
    """The state before round 0; traceable in the cell."""
    key = prng.stream_key(cell.root, prng.Stream.INIT)
    params, stats = model.init(key, example)
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    return ServerState(
        params=params,
        stats=stats,
        mechanism=mechanism.init(plan.num_clients),
        uploads=jnp.zeros((plan.num_clients,), jnp.int32),
        admitted=jnp.ones((plan.num_clients,), bool),
    )


def _client_update(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    state: ServerState,
    examples: Examples,
    client_id: Array,
    row: Array,
    weight: Array,
    *,
    key: Array,
    round_num: Array,
    lane_axes: tuple[str, ...],
) -> tuple[tuple[Params, Params], tuple[MechanismState, ClientMetrics]]:
    """What one client does in a round: train, estimate, add noise, upload.

    The upload and the statistics, to be summed, come multiplied with the client's
    weight; its mechanism's state and its metrics are its own rows.
    """
    valid = client_id >= 0
    own = jnp.maximum(client_id, 0)
    held = jax.tree.map(lambda leaf: leaf[row], cell.split)
    held = dataclasses.replace(held, num_train=jnp.where(valid, held.num_train, 0))
    local_key = prng.stream_key(key, prng.Stream.LOCAL_TRAINING, own)
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    estimation = None
    ratio = jnp.ones((), jnp.float32)
    steps = []
    private_sgd = plan.recipe.gradient == "per_example"
    if mechanism.needs_contribution:
        # Under DP-SGD the noise depends on R, so R is estimated from un-noised
        # trainings first and the model that is uploaded is trained after.
        trained, stats, estimation = privacy_estimation.estimate_contribution(
            model,
            dataclasses.replace(plan.recipe, gradient="clipped_mean")
            if private_sgd
            else plan.recipe,
            cell.rates,
            plan.coalitions,
            state.params,
            state.stats,
            examples,
            held,
            key=local_key,
            num_attributes=plan.num_attributes,
            private_attribute=plan.private_attribute,
            empty_utility=plan.empty_utility,
            validation_batch_size=plan.validation_batch_size,
            lane_axes=lane_axes,
        )
        steps += privacy_estimation.coalition_steps(
            plan.recipe, plan.coalitions, examples, held
        )
        ratio = release_contribution(
            estimation.contribution_ratio,
            cell.mechanism,
            key=prng.stream_key(key, prng.Stream.CONTRIBUTION_RELEASE, own),
        )
    rates = cell.rates
    if mechanism.step_noise_std is not None:
        std = mechanism.step_noise_std(ratio, round_num=round_num)
        rates = dataclasses.replace(rates, step_noise_std=std)
    if private_sgd or not mechanism.needs_contribution:
        trained, stats = local_training.local_update(
            model,
            plan.recipe,
            rates,
            state.params,
            state.stats,
            examples,
            held.train,
            jnp.arange(held.train.shape[0], dtype=jnp.int32) < held.num_train,
            key=local_key,
            batch_size=plan.recipe.batch_size,
            lane_axes=lane_axes,
        )
        per_epoch = local_training.steps_per_epoch(
            held.num_train, plan.recipe.batch_size
        )
        steps.append(plan.recipe.local_epochs * per_epoch)
    update = jax.tree.map(jnp.subtract, trained, state.params)
    client_state = MechanismState(
        clients=jax.tree.map(lambda leaf: leaf[own], state.mechanism.clients),
        shared=state.mechanism.shared,
    )
    upload, client_state, info = mechanism.update(
        update,
        client_state,
        key=prng.stream_key(key, prng.Stream.NOISE, own),
        num_examples=held.num_train,
        contribution_ratio=ratio,
        round_num=round_num,
        params=state.params,
    )
    finite = _all_finite((upload, stats))
    metrics = ClientMetrics(
        client_id=client_id,
        num_examples=held.num_train,
        weight=weight,
        update_l2=noise.l2_norm(update),
        finite=finite,
        estimation=estimation,
        released_ratio=ratio,
        noise=info,
        steps=jnp.stack(steps),
    )
    return aggregation.weighted((upload, stats), weight), (client_state, metrics)


def _all_finite(tree: Params) -> Array:
    """() bool: no number is NaN or infinite."""
    return jax.tree.reduce(
        jnp.logical_and,
        jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf)), tree),
    )


def _by_id(clients: Array, num_clients: int) -> Array:
    """The cohort in ascending order, empty places (-1) last: any order, same bits."""
    places = jnp.sort(jnp.where(clients >= 0, clients, num_clients))
    return jnp.where(places < num_clients, places, cohort.NOBODY)


def federated_round(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    state: ServerState,
    examples: Examples,
    test: Examples,
    *,
    round_num: Array,
    devices: lanes.Devices,
    outer_axes: tuple[str, ...] = (),
    clients: Array | None = None,
) -> tuple[ServerState, RoundMetrics]:
    """Runs one round of FedAvg with a noise mechanism.

    Args:
      model: the `(init, apply)` pair.
      plan: the static choices.
      cell: the values, one run's.
      state: before the round.
      examples: all clients' training and validation examples.
      test: the server's test set.
      round_num: () int32, from 0; the same for all cells of a sweep.
      devices: the mesh's client axis.
      outer_axes: names of the vmap axes around this call.
      clients: (K,) int32 ids of the cohort in any order; the cell's or sampled
        when None.

    Returns:
      `(state after the round, RoundMetrics)`.
    """
    key = prng.round_key(cell.root, round_num)
    if clients is None:
        clients = cell.cohort
    if clients is None:
        clients = cohort.sample_cohort(
            prng.stream_key(key, prng.Stream.COHORT),
            plan.num_clients,
            plan.cohort_size,
            eligible=state.admitted & (state.uploads < cell.max_uploads),
        )
    clients = _by_id(clients, plan.num_clients)
    lane_axes = outer_axes + ((lanes.LANE,) if plan.client_chunk_size > 1 else ())

    valid = clients >= 0
    rows = jnp.maximum(clients, 0)
    if cell.cohort is not None:
        rows = jnp.arange(plan.cohort_size, dtype=jnp.int32)
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    weights = aggregation.client_weights(
        cell.split.num_train[rows],
        valid,
        uniform=plan.uniform_weights or mechanism.uniform_weights,
    )

    order = size_buckets.lane_order(
        jnp.where(valid, cell.split.num_train[rows], 0),
        chunk_size=plan.client_chunk_size,
    )

    def client_update(
        lane: Array,
    ) -> tuple[tuple[Params, Params], tuple[MechanismState, ClientMetrics]]:
        place = order[lane]
        return _client_update(
            model,
            plan,
            cell,
            state,
            examples,
            clients[place],
            rows[place],
            weights[place],
            key=key,
            round_num=round_num,
            lane_axes=lane_axes,
        )

    (update, stats), (client_states, metrics) = lanes.map_lanes(
        client_update,
        plan.cohort_size,
        lanes.largest(jnp.sum(valid.astype(jnp.int32)), outer_axes),
        chunk_size=plan.client_chunk_size,
        devices=devices,
    )
    lane_of = jnp.argsort(order)
    client_states, metrics = jax.tree.map(
        lambda leaf: leaf[lane_of], (client_states, metrics)
    )
    metrics = dataclasses.replace(metrics, client_id=clients)
    params = optax.apply_updates(state.params, update)
    any_upload = jnp.any(valid)
    stats = jax.tree.map(
        lambda mean, old: jnp.where(any_upload, mean, old),
        stats,
        state.stats,
    )
    places = jnp.where(valid, clients, plan.num_clients)  # out of range: dropped
    mechanism_state = MechanismState(
        clients=jax.tree.map(
            lambda leaf, new: leaf.at[places].set(new, mode="drop"),
            state.mechanism.clients,
            client_states.clients,
        ),
        shared=state.mechanism.shared,
    )
    if mechanism.server is not None:
        params, mechanism_state = mechanism.server(
            params,
            state.params,
            mechanism_state,
            key=prng.stream_key(key, prng.Stream.SERVER_NOISE),
            round_num=round_num,
            infos=metrics.noise,
            valid=valid,
        )
    evaluated = ((round_num + 1) % plan.eval_every == 0) | (
        round_num + 1 == plan.num_rounds
    )
    score = jax.lax.cond(
        evaluated,
        lambda: evaluation.evaluate(
            model,
            params,
            stats,
            test,
            batch_size=plan.test_batch_size,
            devices=devices,
        ),
        lambda: evaluation.Score(jnp.float32(jnp.nan), jnp.float32(jnp.nan)),
    )
    num_parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
    variance = jnp.sum(weights**2 * metrics.noise.noise_std**2)
    if mechanism.step_noise_std is not None:  # nothing is added to the uploads
        variance = jnp.float32(0.0)
    return (
        ServerState(
            params=params,
            stats=stats,
            mechanism=mechanism_state,
            uploads=state.uploads.at[places].add(1, mode="drop"),
            admitted=state.admitted,
        ),
        RoundMetrics(
            test_accuracy=score.accuracy,
            test_loss=score.loss,
            aggregate_noise_l2=jnp.sqrt(jnp.float32(num_parameters) * variance),
            steps_run=size_buckets.steps_run(
                metrics.steps, order, chunk_size=plan.client_chunk_size
            ),
            clients=metrics,
            model_finite=_all_finite((params, stats)),
        ),
    )
