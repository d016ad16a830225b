"""One client's part of a round: its work, its noise, its upload."""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax.core import tree
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.structs import (
    Array,
    Examples,
    MechanismState,
    Model,
    Params,
    Weights,
)
from fedsvp_jax.mechanisms import make_mechanism
from fedsvp_jax.models import aggregation

from .state import Cell, ClientMetrics, RoundPlan, ServerState, Task, Upload

# What is added up over the cohort (uploads, statistics), and what is the client's own.
ClientResult = tuple[
    tuple[Upload, Params], tuple[MechanismState, ClientMetrics, Weights | None]
]


def client_round(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    state: ServerState,
    examples: Examples,
    row: Array,
    weight: Array,
    at: Address,
) -> ClientResult:
    """One client's round.

    Args:
      row: () int32, the client's row of `cell.split`.
      weight: () p_i of the average.
      at: with the client -1 for an empty place in the cohort.

    Returns:
      `((upload, stats), (memory, metrics, sent_weights))`. The first
      tuple is added up over the cohort. It is multiplied by the weight, or holds
      residues of the mechanism's grid. The second tuple is the client's own;
      `sent_weights` is the update with its statistics, zeros in an empty place; None
      unless a part of the round looks at every upload.
    """
    client_id = jnp.asarray(at.client)
    valid = client_id >= 0
    at = dataclasses.replace(at, client=jnp.maximum(client_id, 0))
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
    at = dataclasses.replace(at, client=at.client + jnp.int32(update_l2 < 0))
    task = dataclasses.replace(task, at=at)
    upload, memory, info = plan.work.release(task, work, update)
    stats = work.weights.stats
    # It is finite where all numbers are. Their norm would hold two copies of them.
    finite = jnp.isfinite(optax.tree.sum((upload.update, stats, upload.answer)))
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
    if plan.hooks or plan.aggregator.needs_uploads:
        sent_weights = jax.tree.map(
            lambda leaf: jnp.where(valid, leaf, 0), Weights(upload.update, stats)
        )
    return summed, (memory, metrics, sent_weights)
