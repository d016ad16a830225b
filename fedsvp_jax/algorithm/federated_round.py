"""One federated round as one pure function: the module that joins the others.

    cohort -> local_update -> contribution_ratio -> mechanism.update -> aggregate
           -> evaluate

`federated_round` runs inside `shard_map` over the mesh axis `clients`; it is
deterministic in `(state, cell, round_num)` and its bits do not depend on the
number of devices or on the order in which the cohort is named.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax import prng, tree
from fedsvp_jax.algorithm import (
    aggregation,
    client,
    cohort,
    evaluation,
)
from fedsvp_jax.algorithm.state import (
    Cell,
    ClientMetrics,
    RoundMetrics,
    RoundPlan,
    ServerState,
)
from fedsvp_jax.devices import lanes
from fedsvp_jax.mechanisms import (
    make_mechanism,
)
from fedsvp_jax.structs import (
    Array,
    Examples,
    MechanismState,
    Model,
    Params,
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

    order = lanes.lane_order(
        jnp.where(valid, cell.split.num_train[rows], 0),
        chunk_size=plan.client_chunk_size,
    )

    def one_client(
        lane: Array,
    ) -> tuple[tuple[Params, Params], tuple[MechanismState, ClientMetrics]]:
        place = order[lane]
        return client.client_update(
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
        one_client,
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
            steps_run=lanes.steps_run(
                metrics.steps, order, chunk_size=plan.client_chunk_size
            ),
            clients=metrics,
            model_finite=tree.all_finite((params, stats)),
        ),
    )
