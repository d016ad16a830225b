"""One federated round as one pure function: the module that joins the others.

    sample the cohort -> each client: estimate R, train, add noise -> average
                      -> server's part of the mechanism -> evaluate

`federated_round` runs inside `shard_map` over the mesh axis `clients`. It is
deterministic in `(state, cell, round_num)`, and its bits do not depend on the number of
devices.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax import prng, tree
from fedsvp_jax.algorithm import (
    aggregation,
    client,
    cohort,
    evaluation,
    private_query,
)
from fedsvp_jax.algorithm.state import (
    Cell,
    ClientMetrics,
    RoundMetrics,
    RoundPlan,
    ServerState,
)
from fedsvp_jax.devices import lanes
from fedsvp_jax.mechanisms import make_mechanism
from fedsvp_jax.structs import (
    Array,
    Examples,
    MechanismState,
    Model,
    Params,
    Split,
)


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

    Returns:
      `(state after the round, RoundMetrics)`.
    """
    key = prng.round_key(cell.root, round_num)
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    clients, rows = _cohort(plan, cell, state, key, round_num)
    valid = clients >= 0
    sizes = cell.split.num_train[rows]
    weights = aggregation.client_weights(
        sizes, valid, uniform=plan.uniform_weights or mechanism.uniform_weights
    )
    chunk_size = plan.client_chunk_size
    order = lanes.lane_order(jnp.where(valid, sizes, 0), chunk_size=chunk_size)

    def one_client(
        lane: Array,
    ) -> tuple[tuple[Params, Params], tuple[MechanismState, ClientMetrics]]:
        place = order[lane]
        return client.client_round(
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
            lane_axes=outer_axes + ((lanes.LANE,) if chunk_size > 1 else ()),
        )

    (update, stats), by_lane = lanes.map_lanes(
        one_client,
        plan.cohort_size,
        lanes.largest(jnp.sum(valid.astype(jnp.int32)), outer_axes),
        chunk_size=chunk_size,
        devices=devices,
    )
    lane_of = jnp.argsort(order)
    memories, metrics = jax.tree.map(lambda leaf: leaf[lane_of], by_lane)
    metrics = dataclasses.replace(metrics, client_id=clients)

    params = optax.apply_updates(state.params, update)
    anyone = jnp.any(valid)
    stats = jax.tree.map(
        lambda mean, old: jnp.where(anyone, mean, old), stats, state.stats
    )
    places = jnp.where(valid, clients, plan.num_clients)  # out of range: dropped
    memory = state.mechanism.updated(places, memories)
    if mechanism.server is not None:
        params, memory = mechanism.server(
            params,
            state.params,
            memory,
            key=prng.stream_key(key, prng.Stream.SERVER_NOISE),
            round_num=round_num,
            infos=metrics.noise,
            valid=valid,
        )
    score = _score(model, plan, cell, params, stats, examples, test, round_num, devices)
    variance = jnp.sum(weights**2 * metrics.noise.noise_std**2)
    noised = params
    if plan.asked is not None:
        noised = private_query.chosen(params, plan.asked)
    size = jnp.float32(tree.num_parameters(noised))
    return (
        ServerState(
            params=params,
            stats=stats,
            mechanism=memory,
            spent=state.spent.at[places].add(
                cell.allowance.costs[round_num], mode="drop"
            ),
            admitted=state.admitted,
        ),
        RoundMetrics(
            test_accuracy=score.accuracy,
            test_loss=score.loss,
            private_accuracy=score.private,
            worst_tenth_accuracy=score.worst_tenth,
            aggregate_noise_l2=jnp.sqrt(size * variance),
            steps_run=lanes.steps_run(metrics.steps, order, chunk_size=chunk_size),
            clients=metrics,
            model_finite=tree.all_finite((params, stats)),
        ),
    )


def _cohort(
    plan: RoundPlan, cell: Cell, state: ServerState, key: Array, round_num: Array
) -> tuple[Array, Array]:
    """(K,) the clients, ascending, -1 for an empty place, and their rows of the split.

    The host has drawn the cohort of a stream; its row k holds the k-th client.
    """
    if cell.cohort is not None:
        return cell.cohort, jnp.arange(plan.cohort_size, dtype=jnp.int32)
    clients = cohort.sample_cohort(
        prng.stream_key(key, prng.Stream.COHORT),
        plan.num_clients,
        plan.cohort_size,
        eligible=cohort.may_take_part(
            cell.allowance, state.spent, round_num, admitted=state.admitted
        ),
    )
    return clients, jnp.maximum(clients, 0)


class _Scores(NamedTuple):
    """() float32 each, as `RoundMetrics` has them."""

    accuracy: Array
    loss: Array
    private: Array
    worst_tenth: Array


def _score(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    params: Params,
    stats: Params,
    examples: Examples,
    test: Examples,
    round_num: Array,
    devices: lanes.Devices,
) -> _Scores:
    """The model's scores in every `eval_every`-th round and in the last, else NaN."""
    done, nan = round_num + 1, jnp.float32(jnp.nan)

    def scores() -> _Scores:
        found = evaluation.evaluate(
            model,
            params,
            stats,
            test,
            batch_size=plan.test_batch_size,
            devices=devices,
        )
        private = worst = nan
        by_class = found.class_accuracy
        if plan.private_classes:
            classes = jnp.asarray(plan.private_classes)
            tested = jnp.sum(test.labels[:, None] == classes[None], axis=0)
            private = evaluation.mean_over_classes(by_class[classes], tested)
        if plan.differ_by_class:
            counts = _class_counts(cell.split, examples, by_class.shape[0])
            worst = evaluation.worst_tenth(by_class, counts)
        return _Scores(found.accuracy, found.loss, private, worst)

    return jax.lax.cond(
        (done % plan.eval_every == 0) | (done == plan.num_rounds),
        scores,
        lambda: _Scores(nan, nan, nan, nan),
    )


def _class_counts(split: Split, examples: Examples, num_classes: int) -> Array:
    """(M, C) float32: each client's training examples by class."""
    labels = examples.labels[split.train]
    held = jnp.arange(labels.shape[1])[None] < split.num_train[:, None]
    clients = jnp.arange(labels.shape[0])[:, None]
    empty = jnp.zeros((labels.shape[0], num_classes), jnp.float32)
    return empty.at[clients, labels].add(held.astype(jnp.float32))
