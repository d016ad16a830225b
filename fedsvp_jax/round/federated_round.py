"""One federated round as one pure function: the module that joins the others.

    sample the cohort -> each client: estimate R, train, add noise -> average
                      -> server's part of the mechanism -> evaluate

`federated_round` runs inside `shard_map` over the mesh axis `clients`. It is
deterministic in `(state, cell, round_num)`, and its bits do not depend on the number of
devices.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax.core import prng, tree
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.structs import Array, MechanismState, Model, Weights
from fedsvp_jax.devices import lanes
from fedsvp_jax.mechanisms import make_mechanism
from fedsvp_jax.mechanisms.grid import average
from fedsvp_jax.models import aggregation
from fedsvp_jax.round import client, cohort, private_query, round_score
from fedsvp_jax.round.state import (
    Cell,
    ClientMetrics,
    Data,
    RoundMetrics,
    RoundPlan,
    ServerState,
)
from fedsvp_jax.shapley import client_values


def federated_round(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    state: ServerState,
    data: Data,
    *,
    round_num: Array,
    devices: lanes.Devices,
    outer_axes: tuple[str, ...] = (),
) -> tuple[ServerState, RoundMetrics]:
    """Runs one round of FedAvg with a noise mechanism.

    Args:
      round_num: () int32, from 0; the same for all cells of a sweep.
      devices: the mesh's client axis.
      outer_axes: names of the vmap axes around this call.
    """
    key = prng.round_key(cell.root, round_num)
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    if cell.cohort is None:
        clients = cohort.cohort_of_round(
            cell.root.shared,
            cell.allowance,
            state.spent,
            round_num,
            cohort_size=plan.cohort_size,
            cohorts=plan.cohorts,
            admitted=state.admitted,
        )
        rows = jnp.maximum(clients, 0)
    else:  # of a stream, drawn by the host: row k holds the k-th client
        clients = cell.cohort
        rows = jnp.arange(plan.cohort_size, dtype=jnp.int32)
    valid = clients >= 0
    sizes = cell.split.num_train[rows]
    uniform = plan.uniform_weights or mechanism.uniform_weights
    weights = aggregation.client_weights(sizes, valid, uniform=uniform)
    chunk_size = plan.client_chunk_size
    inner_axes = (lanes.LANE,) if chunk_size > 1 else ()
    lane_axes = outer_axes + inner_axes if plan.recipe.most_steps is None else ()
    order = lanes.lane_order(jnp.where(valid, sizes, 0), chunk_size=chunk_size)

    def one_client(
        lane: Array,
    ) -> tuple[client.Summed, tuple[MechanismState, ClientMetrics, Weights | None]]:
        place = order[lane]
        at = Address(key, clients[place], round_num, lane_axes)
        return client.client_round(
            model,
            plan,
            cell,
            state,
            data.examples,
            rows[place],
            weights[place],
            at,
        )

    (update, stats, answer), by_lane = lanes.map_lanes(
        one_client,
        plan.cohort_size,
        lanes.largest(jnp.sum(valid.astype(jnp.int32)), outer_axes),
        chunk_size=chunk_size,
        devices=devices,
        known_trips=plan.known_trips,
    )
    lane_of = jnp.argsort(order)
    memories, metrics, uploads = jax.tree.map(lambda leaf: leaf[lane_of], by_lane)
    metrics = dataclasses.replace(metrics, client_id=clients)

    anyone = jnp.any(valid)
    if mechanism.grid is not None and mechanism.claim.central:
        decode = partial(
            average,
            grid=mechanism.grid,
            std=jnp.max(jnp.where(valid, metrics.noise.noise_std, 0.0)),
            count=jnp.sum(valid),
        )
        answer = decode(answer)
        update = decode(update) if plan.query_parts is None else update

    step = partial(
        aggregation.server_step,
        state=state.optimizer,
        settings=plan.server,
        anyone=anyone,
    )
    if plan.scores.client_values is not None:
        assert data.validation is not None
        cohort_values = client_values.client_values(
            model,
            plan.scores.client_values,
            Weights(state.params, state.stats),
            uploads,
            jnp.where(valid, 1 if uniform else sizes, 0),
            lambda update: step(update)[0],
            data.validation,
            prng.stream_key(key, prng.Stream.CLIENT_VALUES),
        )
        metrics = dataclasses.replace(
            metrics, value=cohort_values.values, value_margin=cohort_values.margins
        )
    update, memory_of_steps = step(update)
    params = optax.apply_updates(state.params, update)
    stats = jax.tree.map(
        lambda mean, old: jnp.where(anyone, mean, old), stats, state.stats
    )
    places = jnp.where(valid, clients, plan.num_clients)  # out of range: dropped
    memory = state.mechanism.updated(places, memories)
    if mechanism.server is not None:
        served = mechanism.server(
            params,
            state.params,
            memory,
            key=prng.stream_key(key, prng.Stream.SERVER_NOISE),
            round_num=round_num,
            infos=metrics.noise,
            valid=valid,
        )
        # A round without clients leaves the model and what the server remembers.
        params, memory = jax.tree.map(
            lambda new, old: jnp.where(anyone, new, old), served, (params, memory)
        )
    score = round_score.of_round(
        model, plan, cell, Weights(params, stats), data, round_num, devices
    )
    variance = jnp.sum(weights**2 * metrics.noise.noise_std**2)
    noised = params
    if plan.query_parts is not None:
        noised = private_query.chosen(params, plan.query_parts)
    size = jnp.float32(tree.num_parameters(noised))
    return (
        ServerState(
            params=params,
            stats=stats,
            mechanism=memory,
            answer=answer,
            spent=state.spent.at[places].add(
                cell.allowance.costs[round_num], mode="drop"
            ),
            admitted=state.admitted,
            optimizer=memory_of_steps,
        ),
        RoundMetrics(
            **score._asdict(),
            aggregate_noise_l2=jnp.sqrt(size * variance),
            steps_run=lanes.steps_run(metrics.steps, order, chunk_size=chunk_size),
            clients=metrics,
            model_finite=tree.is_finite((params, stats)),
        ),
    )
