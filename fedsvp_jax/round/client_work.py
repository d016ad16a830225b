"""The kinds of client: one that trains, one whose upload is a gradient, one that
estimates its R first, and one whose private records answer a query.

Each step is a function of its own, which the attacks and the audit call as well.
Formulas of the private query, and its claim's proof: `private_query`.
"""

import dataclasses

import jax.numpy as jnp

from fedsvp_jax.core.prng import Address, Stream
from fedsvp_jax.core.structs import (
    Array,
    MechanismState,
    Model,
    NoiseInfo,
    Params,
    Rows,
    Weights,
)
from fedsvp_jax.core.tree import where
from fedsvp_jax.mechanisms import (
    Mechanism,
    MechanismConfig,
    nothing_private,
    release_contribution,
)

from . import local_training, privacy_estimation, private_query
from .local_training import Draws, TrainingRates, TrainingRecipe
from .state import ClientWork, LocalWork, Release, Task, Upload, rows_of


def released_ratio(ratio: Array, config: MechanismConfig, at: Address) -> Array:
    """() the R that the noise may follow, as `contribution_release` says."""
    key = at.stream(Stream.CONTRIBUTION_RELEASE)
    return release_contribution(ratio, config, key=key)


def with_step_noise(
    rates: TrainingRates, mechanism: Mechanism, *, ratio: Array, round_num: Array | int
) -> TrainingRates:
    """The rates with the noise of each step, which may follow the released R."""
    if mechanism.step_noise_std is None:
        return rates
    std = mechanism.step_noise_std(ratio, round_num=round_num)
    return rates._replace(step_noise_std=std)


def train(
    model: Model,
    recipe: TrainingRecipe,
    rates: TrainingRates,
    start: Weights,
    rows: Rows,
    at: Address,
    *,
    drift: Params | None = None,
) -> Weights:
    """Local training on a client's examples."""
    return local_training.local_update(
        model,
        recipe,
        rates,
        start,
        rows,
        Draws(at.stream(Stream.LOCAL_TRAINING), at.stream(Stream.DP_SGD)),
        lane_axes=at.lane_axes,
        drift=drift,
    )


def add_noise(
    mechanism: Mechanism,
    update: Params,
    memory: MechanismState,
    *,
    num_examples: Array,
    ratio: Array,
    params: Params,
    at: Address,
) -> tuple[Params, MechanismState, NoiseInfo]:
    """`(upload, memory after it, NoiseInfo)`: what leaves the client, by its address.

    `ratio` is the released R; the rest is what `Mechanism.update` takes.
    """
    return mechanism.update(
        update,
        memory,
        key=at.stream(Stream.NOISE),
        num_examples=num_examples,
        contribution_ratio=ratio,
        round_num=at.round_num,
        params=params,
    )


def noised_update(task: Task, work: LocalWork, update: Params) -> Release:
    """The upload of a client that answers no query: its noised update."""
    noised, memory, info = add_noise(
        task.mechanism,
        update,
        task.memory,
        num_examples=task.split.num_train,
        ratio=work.ratio,
        params=task.state.params,
        at=task.at,
    )
    return Upload(noised, []), memory, info


def plain_client(task: Task) -> LocalWork:
    """Trains on all of its records."""
    ratio = jnp.float32(1)
    return LocalWork(trained_weights(task, ratio), ratio)


def gradient_client(task: Task) -> LocalWork:
    """Takes the clipped gradient of all of its records; the step is the server's."""
    gradient = local_training.clipped_gradient(
        task.model,
        task.plan.recipe,
        task.rates,
        task.state.weights,
        rows_of(task.examples, task.split),
        task.at.stream(Stream.LOCAL_TRAINING),
        batch_size=task.cell.mechanism.batch_size,
    )
    return LocalWork(task.state.weights, jnp.float32(1), gradient=gradient)


def estimating_client(task: Task) -> LocalWork:
    """Estimates its R. The estimation's training on all records gives the upload.

    Noise in the steps follows the released R, so with it the model is trained again.
    """
    work = estimate_and_train(task)
    if task.mechanism.step_noise_std is None:
        return work
    return work._replace(weights=trained_weights(task, work.ratio))


def estimate_and_train(task: Task) -> LocalWork:
    """The model that the estimation of R has trained, and the released R."""
    trained, estimation = privacy_estimation.estimate_contribution(task)
    ratio = released_ratio(estimation.contribution_ratio, task.cell.mechanism, task.at)
    return LocalWork(trained, ratio, estimation)


def trained_weights(
    task: Task, ratio: Array, members: Array | bool = True, drift: Params | None = None
) -> Weights:
    """The model after local training, with the noise of its steps."""
    rates = with_step_noise(
        task.rates, task.mechanism, ratio=ratio, round_num=task.at.round_num
    )
    return train(
        task.model,
        task.plan.recipe,
        rates,
        task.state.weights,
        rows_of(task.examples, task.split, members),
        task.at,
        drift=drift,
    )


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


PLAIN = ClientWork(plain_client, noised_update)
GRADIENT = ClientWork(gradient_client, noised_update)
ESTIMATING = ClientWork(estimating_client, noised_update)
PRIVATE_QUERY = ClientWork(private_query_client, noised_answer)
