"""One federated round as one pure function: the module that joins the others.

    cohort -> each client: work, noise, upload -> aggregate -> server's step -> score

`federated_round` runs inside `shard_map` over the mesh axis `clients`. It is
deterministic in `(state, cell, round_num)`, and its bits do not depend on the number of
devices.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax.core import prng, tree
from fedsvp_jax.core.structs import (
    Array,
    Examples,
    MechanismState,
    Model,
    Params,
    Weights,
    iota,
)
from fedsvp_jax.devices import lanes
from fedsvp_jax.mechanisms import make_mechanism
from fedsvp_jax.models import aggregation

from . import cohort, private_query, round_score
from .aggregator import SUM_ON_GRID, WEIGHTED_SUM
from .client_work import GRADIENT
from .state import (
    Cell,
    ClientMetrics,
    Data,
    RoundMetrics,
    RoundPlan,
    ServerState,
    Task,
    Upload,
    rates_of_round,
)

# What a client adds to the cohort's sums: its upload and statistics, multiplied by its
# weight; residues of a grid are not multiplied.
Summed = tuple[Upload, Params]
# What is kept of each client: the mechanism's memory, metrics, and the update with its
# statistics; these are zeros in an empty place, and None unless the aggregator
# looks at every upload.
Own = tuple[MechanismState, ClientMetrics, Weights | None]


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
      plan: static; the clients' work and aggregator are values of it (`round.state`).
      round_num: () int32, from 0; the same for all cells of a sweep.
      devices: the mesh's client axis.
      outer_axes: names of the vmap axes around this call.
    """
    with tree.norms(in_stages=plan.norms_in_stages):
        key = prng.round_key(cell.root, round_num)
        mechanism = make_mechanism(plan.mechanism, cell.mechanism)

        # The cohort.
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
        else:  # a stream's, which the host drew
            clients, rows = cell.cohort, iota(plan.cohort_size)
        valid = clients >= 0
        sizes = cell.split.num_train[rows]
        uniform = plan.uniform_weights or mechanism.uniform_weights
        weights = aggregation.client_weights(sizes, valid, uniform=uniform)

        # Each client's work, in lanes, and the sum of the weighted uploads.
        chunk_size = plan.client_chunk_size
        inner_axes = (lanes.LANE,) if chunk_size > 1 else ()
        lane_axes = outer_axes + inner_axes if plan.recipe.most_steps is None else ()
        in_order = plan.known_trips and chunk_size in (1, plan.cohort_size)
        order = lanes.lane_order(jnp.where(valid, sizes, 0), chunk_size=chunk_size)

        def run_client(lane: Array) -> tuple[Params, Params]:
            place = lane if in_order else order[lane]
            return client_round(
                model,
                plan,
                cell,
                state,
                data.examples,
                address=prng.Address(key, clients[place], round_num, lane_axes),
                row=rows[place],
                weight=weights[place],
            )

        (total, stats), by_lane = lanes.map_lanes(
            run_client,
            plan.cohort_size,
            lanes.largest(jnp.sum(valid), outer_axes),
            chunk_size=chunk_size,
            devices=devices,
            known_trips=plan.known_trips,
        )
        if not in_order:
            by_lane = tree.cell_of(by_lane, jnp.argsort(order))
        memories, metrics, stacked = by_lane

        # The aggregate.
        infos = metrics.noise
        upload: Upload = plan.aggregator.decode(
            mechanism, total, stacked, infos.visible_to_server(), valid
        )
        _check_update(plan, upload, state.params)
        anyone = jnp.any(valid)

        # The server's step: its optimiser, then the mechanism's own part. A round
        # without clients leaves the model and the memory of both as they are.
        places = jnp.where(valid, clients, plan.num_clients)  # out of range: dropped
        memory = state.mechanism.updated(places, memories)
        average, rate = upload.update, None
        if plan.work == GRADIENT:  # updates are steps already
            rate = rates_of_round(plan, cell, round_num).learning_rate
            average = jax.tree.map(lambda leaf: -rate * leaf, average)
        step, optimizer = aggregation.optimizer_step(
            average, state.optimizer, plan.server, anyone=anyone
        )
        params = optax.apply_updates(state.params, step)
        stats = tree.where(anyone, stats, state.stats)
        if mechanism.server is not None:
            served = mechanism.server(
                params,
                state.params,
                memory,
                key=prng.stream_key(key, prng.Stream.SERVER_NOISE),
                round_num=round_num,
                infos=infos,
                valid=valid,
            )
            params, memory = tree.where(anyone, served, (params, memory))

        # The score of the next model.
        broadcast = Weights(params, stats)
        score = round_score.of_round(
            model, plan, cell, broadcast, data, round_num, devices
        )
        variance = jnp.sum(weights**2 * infos.noise_std**2)
        if rate is not None:
            variance = rate**2 * variance
        noised = private_query.chosen(broadcast.params, plan.query_parts)
        size = jnp.float32(tree.num_parameters(noised))
        cost = cell.allowance.costs[round_num]
        return (
            dataclasses.replace(
                state,
                params=params,
                stats=stats,
                mechanism=memory,
                answer=upload.answer,
                optimizer=optimizer,
                spent=state.spent.at[places].add(cost, mode="drop"),
            ),
            RoundMetrics(
                **score._asdict(),
                aggregate_noise_l2=jnp.sqrt(size * variance)
                if plan.aggregator in (WEIGHTED_SUM, SUM_ON_GRID)
                else jnp.float32(jnp.nan),
                clients=dataclasses.replace(metrics, client_id=clients),
                model_finite=tree.is_finite(tuple(broadcast)),
            ),
        )


def client_round(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    state: ServerState,
    examples: Examples,
    *,
    address: prng.Address,
    row: Array,
    weight: Array,
) -> tuple[Summed, Own]:
    """One client's round.

    Args:
      address: with the client -1 for an empty place in the cohort.
      row: () int32, the client's row of `cell.split`.
      weight: () p_i of the average.
    """
    client_id = jnp.asarray(address.client)
    valid = client_id >= 0
    at = address._replace(client=jnp.maximum(client_id, 0))
    split = tree.cell_of(cell.split, row)
    split = dataclasses.replace(split, num_train=jnp.where(valid, split.num_train, 0))
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    task = Task(model, plan, cell, mechanism, state, examples, split, at)
    work = plan.work.prepare(task)
    update = work.gradient
    if update is None:
        update = optax.tree.sub(work.weights.params, state.params)
    update_l2 = tree.l2_norm(update)
    # The noise's key is made to depend on the update. Else XLA draws before it trains,
    # and holds a copy of the weights meanwhile; it removes an optimization_barrier.
    at = at._replace(client=at.client + jnp.int32(update_l2 < 0))
    task = dataclasses.replace(task, at=at)
    upload, memory, info = plan.work.release(task, work, update)
    stats = work.weights.stats
    # Their norm would hold two copies of the numbers.
    finite = tree.has_finite_sum(
        (upload.update, stats, upload.answer), in_stages=plan.recipe.fewer_kernels
    )
    upload = plan.aggregator.encode(mechanism, upload, info.visible_to_server())
    metrics = ClientMetrics(
        client_id=client_id,
        num_examples=split.num_train,
        weight=weight,
        update_l2=update_l2,
        finite=finite,
        estimation=work.estimation,
        released_ratio=work.ratio,
        noise=info,
    )
    summed = aggregation.weighted((upload, stats), weight)
    sent_weights = None
    # Client 0's noise in an empty place would bare its update.
    if plan.aggregator.needs_uploads:
        sent_weights = tree.where(valid, Weights(upload.update, stats))
    return summed, (memory, metrics, sent_weights)


def _check_update(plan: RoundPlan, upload: Upload, params: Params) -> None:
    """Raises ValueError: it is no update of these parameters."""
    update = upload.update if isinstance(upload, Upload) else None
    if jax.tree.map(jnp.shape, update) != jax.tree.map(jnp.shape, params):
        raise ValueError(
            f"aggregator {plan.aggregator.decode.__qualname__} must return "
            "total._replace(update=...) with arrays of the shapes of total.update, got "
            f"another {type(upload).__name__}"
        )
