"""One client's part of a round: estimate R, train, add noise, upload.

`client_round` does all of it. Up to the noise there are three kinds of client, and the
program's settings choose one (`local_work`). Each step is a function of its own, which
the attacks and the audit call as well.
"""

import dataclasses
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp

from fedsvp_jax.core import tree
from fedsvp_jax.core.prng import Address, Stream
from fedsvp_jax.core.structs import (
    Array,
    Examples,
    MechanismState,
    Model,
    NoiseInfo,
    Params,
    Rows,
    Weights,
)
from fedsvp_jax.mechanisms import (
    Mechanism,
    MechanismConfig,
    make_mechanism,
    nothing_private,
    release_contribution,
)
from fedsvp_jax.mechanisms.grid import residues
from fedsvp_jax.models import aggregation
from fedsvp_jax.round import local_training, privacy_estimation, private_query
from fedsvp_jax.round.local_training import Draws, TrainingRates, TrainingRecipe
from fedsvp_jax.round.state import (
    Cell,
    ClientMetrics,
    LocalWork,
    RoundPlan,
    ServerState,
    Task,
    rows_of,
)

# A cohort's sums: upload, statistics, the private query's answer ([] without one).
Summed: TypeAlias = tuple[Params, Params, list[Array]]


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
    return dataclasses.replace(rates, step_noise_std=std)


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


def local_work(task: Task) -> LocalWork:
    """The client's work up to the noise; the program's settings choose the kind."""
    if task.plan.query_parts is not None:
        return private_query_client(task)
    if task.mechanism.needs_contribution:
        return estimating_client(task)
    return plain_client(task)


def plain_client(task: Task) -> LocalWork:
    """Trains on all of its records."""
    ratio = jnp.ones((), jnp.float32)
    trained = _trained(task, ratio)
    return LocalWork(trained, None, None, ratio, _steps(task, task.split.num_train))


def estimating_client(task: Task) -> LocalWork:
    """Estimates its R, which trains the model that is uploaded.

    Noise in the steps follows the released R, so with it the model is trained again.
    """
    work = _estimated(task)
    if task.mechanism.step_noise_std is None:
        return work
    trained = _trained(task, work.ratio)
    steps = jnp.concatenate([work.steps, _steps(task, task.split.num_train)])
    return work._replace(weights=trained, steps=steps)


def private_query_client(task: Task) -> LocalWork:
    """Trains on its public records; those of P are for its answer (`private_query`).

    It estimates its R first, where the noise of the answer follows it.
    """
    plan, settings, query_parts = task.plan, task.cell.mechanism, task.plan.query_parts
    assert query_parts is not None
    guided = _estimated(task) if task.mechanism.needs_contribution else None
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
    ratio = jnp.ones((), jnp.float32) if guided is None else guided.ratio
    trained = _trained(
        dataclasses.replace(task, model=trainee), ratio, members=public, drift=drift
    )
    steps = _steps(task, task.split.num_train - jnp.sum(private))
    if guided is None:
        return LocalWork(trained, private, None, ratio, steps)
    steps = jnp.concatenate([guided.steps, steps])
    return guided._replace(weights=trained, private=private, steps=steps)


def _estimated(task: Task) -> LocalWork:
    """The model that the estimation of R has trained, and the released R."""
    trained, estimation = privacy_estimation.estimate_contribution(
        task.model,
        task.plan.recipe,
        task.rates,
        task.plan.estimation,
        task.broadcast,
        task.examples,
        task.split,
        task.at,
    )
    steps = privacy_estimation.training_steps(
        task.plan.recipe,
        task.plan.estimation,
        task.examples,
        task.split,
        pairs_key=task.at.stream(Stream.COALITIONS),
    )
    ratio = released_ratio(estimation.contribution_ratio, task.cell.mechanism, task.at)
    return LocalWork(trained, None, estimation, ratio, steps)


def _trained(
    task: Task, ratio: Array, members: Array | bool = True, drift: Params | None = None
) -> Weights:
    """The model after local training, with the noise of its steps."""
    rates = with_step_noise(
        task.rates, task.mechanism, ratio=ratio, round_num=task.at.round_num
    )
    rows = rows_of(task.examples, task.split, members)
    return train(
        task.model, task.plan.recipe, rates, task.broadcast, rows, task.at, drift=drift
    )


def _steps(task: Task, trained_on: Array) -> Array:
    """(1,) int32: the steps of a training on so many examples."""
    return local_training.upload_steps(task.plan.recipe, trained_on)[None]


def query_gradient(task: Task, private: Array) -> list[Array]:
    """The private query's answer before its noise, at the broadcast model."""
    assert task.plan.query_parts is not None
    return private_query.mean_clipped_gradient(
        task.model,
        task.broadcast,
        Rows(task.examples, task.split.train, private),
        l2_norm_clip=task.cell.mechanism.private_clip,
        query_parts=task.plan.query_parts,
        lane_axes=task.at.lane_axes,
    )


def only_if(
    holds: Array, noised: list[Array], info: NoiseInfo
) -> tuple[list[Array], NoiseInfo]:
    """The noised answer and its NoiseInfo if `holds`, else zeros."""
    nothing = [jnp.zeros_like(leaf) for leaf in noised], nothing_private()
    return jax.tree.map(partial(jnp.where, holds), (noised, info), nothing)


def client_round(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    state: ServerState,
    examples: Examples,
    row: Array,
    weight: Array,
    at: Address,
) -> tuple[Summed, tuple[MechanismState, ClientMetrics, Weights | None]]:
    """One client's round.

    Args:
      row: () int32, the client's row of `cell.split`.
      weight: () p_i of the average.
      at: with the client -1 for an empty place in the cohort.

    Returns:
      `((upload, stats, answer), (memory, metrics, uploaded))`. The cohort's sum is of
      the first tuple: multiplied with the weight, or as residues of the mechanism's
      grid. The second holds the client's own rows; `uploaded` is the upload with its
      statistics, None unless values of clients are computed.
    """
    client_id = jnp.asarray(at.client)
    valid = client_id >= 0
    at = dataclasses.replace(at, client=jnp.maximum(client_id, 0))
    split = jax.tree.map(lambda leaf: leaf[row], cell.split)
    split = dataclasses.replace(split, num_train=jnp.where(valid, split.num_train, 0))
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    task = Task(model, plan, cell, mechanism, state, examples, split, at)
    work = local_work(task)
    update = jax.tree.map(jnp.subtract, work.weights.params, state.params)
    noise_added = partial(
        add_noise,
        mechanism,
        memory=state.mechanism.of(at.client),
        ratio=work.ratio,
        at=at,
    )
    upload = update
    answered: list[Array] = []
    if work.private is None:
        upload, memory, info = noise_added(
            update, num_examples=split.num_train, params=state.params
        )
    else:
        assert plan.query_parts is not None
        # Clients without private records add their share of the cohort's noise too.
        holds = jnp.any(work.private) | mechanism.claim.central
        holds = holds & (at.round_num >= cell.mechanism.private_from)
        noised, memory, info = noise_added(
            query_gradient(task, work.private),
            num_examples=jnp.sum(work.private),
            params=private_query.chosen(state.params, plan.query_parts),
        )
        answered, info = only_if(holds, noised, info)
    finite = tree.is_finite((upload, work.weights.stats, answered))
    if mechanism.grid is not None and mechanism.claim.central:
        encode = partial(residues, grid=mechanism.grid, std=info.noise_std)
        answered = encode(answered)
        upload = encode(upload) if work.private is None else upload
    metrics = ClientMetrics(
        client_id=client_id,
        num_examples=split.num_train,
        weight=weight,
        update_l2=tree.l2_norm(update),
        finite=finite,
        estimation=work.estimation,
        released_ratio=work.ratio,
        noise=info,
        steps=work.steps,
    )
    stats = work.weights.stats
    summed = aggregation.weighted((upload, stats, answered), weight)
    uploaded = None if plan.scores.client_values is None else Weights(upload, stats)
    return summed, (memory, metrics, uploaded)
