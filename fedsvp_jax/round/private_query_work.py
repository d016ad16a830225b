"""The client of a private query: its private records answer, the public ones train.

Formulas and the claim's proof: `private_query`.
"""

import dataclasses

import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, NoiseInfo, Params, Rows
from fedsvp_jax.core.tree import where
from fedsvp_jax.mechanisms import nothing_private

from . import private_query
from .client_work import add_noise, estimate_and_train, trained_weights
from .state import ClientWork, LocalWork, Release, Task, Upload


def private_query_client(task: Task) -> LocalWork:
    """Trains on its public records; those of P are for its answer (`private_query`).

    It estimates its R first, where the noise of the answer follows it.
    """
    plan, settings, query_parts = task.plan, task.cell.mechanism, task.plan.query_parts
    work = (
        estimate_and_train(task)
        if task.mechanism.needs_contribution
        else LocalWork(task.state.weights, jnp.float32(1))
    )
    public, private = private_query.divided(
        task.examples.attributes[task.split.train],
        task.split.num_train,
        private_attribute=plan.estimation.private_attribute,
    )
    trainee = private_query.public_model(
        task.model, query_parts, plan.private_classes, settings.private_margin
    )
    drift = private_query.remembered(
        task.state.params,
        task.state.answer,
        query_parts,
        weight=settings.private_weight,
    )
    task = dataclasses.replace(task, model=trainee)
    trained = trained_weights(task, work.ratio, members=public, drift=drift)
    return work._replace(weights=trained, private=private)


def query_gradient(task: Task, private: Array) -> private_query.Answer:
    """The private query's answer before its noise, at the broadcast model."""
    return private_query.mean_clipped_gradient(
        task.model,
        task.state.weights,
        Rows(task.examples, task.split.train, private),
        l2_norm_clip=task.cell.mechanism.private_clip,
        query_parts=task.plan.query_parts,
        lane_axes=task.at.lane_axes,
    )


def only_if(
    holds: Array, noised: private_query.Answer, info: NoiseInfo
) -> tuple[private_query.Answer, NoiseInfo]:
    """The noised answer and its NoiseInfo if `holds`, else zeros."""
    nothing = [jnp.zeros_like(leaf) for leaf in noised], nothing_private()
    return where(holds, (noised, info), nothing)


def noised_answer(task: Task, work: LocalWork, update: Params) -> Release:
    """The update as it is, and the noised answer to the query.

    Clients without private records add their share of the cohort's noise too.
    """
    assert work.private is not None
    holds = jnp.any(work.private) | task.mechanism.basis.central
    holds &= task.at.round_num >= task.cell.mechanism.private_from
    noised, memory, info = add_noise(
        task.mechanism,
        query_gradient(task, work.private),
        task.memory,
        num_examples=jnp.sum(work.private),
        ratio=work.ratio,
        params=private_query.chosen(task.state.params, task.plan.query_parts),
        at=task.at,
    )
    answer, info = only_if(holds, noised, info)
    return Upload(update, answer), memory, info


PRIVATE_QUERY = ClientWork(private_query_client, noised_answer)
