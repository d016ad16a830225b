"""What one client does in a round: estimate R, train, add noise, upload.

`client_round` is the whole of it. Its steps are functions of their own, which the
attacks and the audit call as well. Every step takes the round's key and the client's
id, and folds in its purpose.
"""

import dataclasses
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp

from fedsvp_jax import optimizers, prng, tree
from fedsvp_jax.algorithm import (
    aggregation,
    local_training,
    privacy_estimation,
    private_answer,
    private_query,
)
from fedsvp_jax.algorithm.local_training import TrainingRates, TrainingRecipe
from fedsvp_jax.algorithm.privacy_estimation import Estimation
from fedsvp_jax.algorithm.state import (
    Cell,
    ClientMetrics,
    LocalWork,
    RoundPlan,
    ServerState,
)
from fedsvp_jax.mechanisms import (
    Mechanism,
    MechanismConfig,
    make_mechanism,
    release_contribution,
)
from fedsvp_jax.mechanisms.grid import residues
from fedsvp_jax.prng import Stream
from fedsvp_jax.structs import (
    Array,
    Examples,
    MechanismState,
    Model,
    NoiseInfo,
    Params,
    Split,
)

# What a cohort's sums are of: upload, statistics, and the private query's answer, which
# is [] where none is asked.
Summed: TypeAlias = tuple[Params, Params, list[Array]]


def estimate(
    model: Model,
    plan: RoundPlan,
    rates: TrainingRates,
    params: Params,
    stats: Params,
    examples: Examples,
    held: Split,
    *,
    key: Array,
    client_id: Array,
    lane_axes: tuple[str, ...],
) -> tuple[Params, Params, Estimation]:
    """Privacy estimation: `(trained params, trained stats, Estimation)`.

    The training is without noise in its steps, whatever the plan's gradient is, and
    its batches are shuffled.
    """
    recipe = plan.recipe
    if recipe.gradient == "per_example":
        recipe = dataclasses.replace(
            recipe, gradient="clipped_mean", places=None, local_steps=None
        )
    return privacy_estimation.estimate_contribution(
        model,
        recipe,
        rates,
        plan.estimation,
        params,
        stats,
        examples,
        held,
        key=prng.stream_key(key, Stream.LOCAL_TRAINING, client_id),
        pairs_key=prng.stream_key(key, Stream.COALITIONS, client_id),
        lane_axes=lane_axes,
    )


def rates_of_round(plan: RoundPlan, cell: Cell, round_num: Array) -> TrainingRates:
    """The cell's rates with the learning rate that the schedule gives to a round."""
    schedule = optimizers.client_rate(
        plan.client, cell.rates.learning_rate, plan.num_rounds
    )
    if schedule is None:
        return cell.rates
    rate = schedule(round_num.astype(jnp.float32))
    return dataclasses.replace(cell.rates, learning_rate=rate)


def released_ratio(
    ratio: Array, config: MechanismConfig, *, key: Array, client_id: Array
) -> Array:
    """() the R that the noise may follow, as `contribution_release` says."""
    return release_contribution(
        ratio,
        config,
        key=prng.stream_key(key, Stream.CONTRIBUTION_RELEASE, client_id),
    )


def with_step_noise(
    rates: TrainingRates, mechanism: Mechanism, *, ratio: Array, round_num: Array
) -> TrainingRates:
    """The rates with the noise that a mechanism puts into each step, if it puts any.

    Args:
      ratio: () the released R, which that noise may follow.
    """
    if mechanism.step_noise_std is None:
        return rates
    std = mechanism.step_noise_std(ratio, round_num=round_num)
    return dataclasses.replace(rates, step_noise_std=std)


def train(
    model: Model,
    recipe: TrainingRecipe,
    rates: TrainingRates,
    params: Params,
    stats: Params,
    examples: Examples,
    rows: Array,
    num_rows: Array,
    *,
    key: Array,
    client_id: Array | int,
    lane_axes: tuple[str, ...],
    among: Array | bool = True,
    drift: Params | None = None,
) -> tuple[Params, Params]:
    """Local training on a client's examples: `(params, stats)`.

    Args:
      rows: (m,) rows of `examples`, of which the first `num_rows` are the client's.
      among: (m,) bool: trains on these of them alone.
      drift: is added to the gradient of every step.
    """
    return local_training.local_update(
        model,
        recipe,
        rates,
        params,
        stats,
        examples,
        rows,
        among & (jnp.arange(rows.shape[0], dtype=jnp.int32) < num_rows),
        key=prng.stream_key(key, Stream.LOCAL_TRAINING, client_id),
        batch_size=recipe.batch_size,
        lane_axes=lane_axes,
        drift=drift,
    )


def add_noise(
    mechanism: Mechanism,
    update: Params,
    memory: MechanismState,
    *,
    num_examples: Array,
    ratio: Array,
    round_num: Array,
    params: Params,
    key: Array,
    client_id: Array | int,
) -> tuple[Params, MechanismState, NoiseInfo]:
    """The upload that leaves the client: clipped and noised.

    Args:
      update: client minus server.
      memory: the mechanism's state as this client sees it (`MechanismState.of`).
      num_examples: () |D|.
      ratio: () the released R.
      params: the broadcast model.

    Returns:
      `(upload, memory after it, NoiseInfo)`.
    """
    return mechanism.update(
        update,
        memory,
        key=prng.stream_key(key, Stream.NOISE, client_id),
        num_examples=num_examples,
        contribution_ratio=ratio,
        round_num=round_num,
        params=params,
    )


def local_work(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    state: ServerState,
    examples: Examples,
    held: Split,
    *,
    mechanism: Mechanism,
    key: Array,
    client_id: Array,
    round_num: Array,
    lane_axes: tuple[str, ...],
) -> LocalWork:
    """A client's round up to the noise: it estimates R and trains.

    Args:
      held: the client's row of the federation's Split.
      mechanism: of the plan and the cell.
      key: the round's.
      lane_axes: names of the enclosing vmap axes.
    """
    rates = rates_of_round(plan, cell, round_num)
    estimation = None
    ratio = jnp.ones((), jnp.float32)
    steps = []
    if mechanism.needs_contribution:
        trained, stats, estimation = estimate(
            model,
            plan,
            rates,
            state.params,
            state.stats,
            examples,
            held,
            key=key,
            client_id=client_id,
            lane_axes=lane_axes,
        )
        steps.append(
            privacy_estimation.training_steps(
                plan.recipe,
                plan.estimation,
                examples,
                held,
                pairs_key=prng.stream_key(key, Stream.COALITIONS, client_id),
            )
        )
        ratio = released_ratio(
            estimation.contribution_ratio, cell.mechanism, key=key, client_id=client_id
        )
    asked = plan.asked
    trainee, drift = model, None
    public: Array | bool = True
    private = None
    if asked is not None:
        public, private = private_query.divided(
            examples.attributes[held.train],
            held.num_train,
            private_attribute=plan.estimation.private_attribute,
        )
        trainee = private_query.public_model(
            model, asked, plan.private_classes, cell.mechanism.private_margin
        )
        drift = private_query.remembered(
            state.params, state.answer, asked, weight=cell.mechanism.private_weight
        )
    # The estimation has trained the model that is uploaded, unless the steps need
    # noise, whose std follows R and so comes after the estimation, or private records
    # are kept out of them.
    if (
        mechanism.step_noise_std is not None
        or asked is not None
        or not mechanism.needs_contribution
    ):
        trained, stats = train(
            trainee,
            plan.recipe,
            with_step_noise(rates, mechanism, ratio=ratio, round_num=round_num),
            state.params,
            state.stats,
            examples,
            held.train,
            held.num_train,
            key=key,
            client_id=client_id,
            lane_axes=lane_axes,
            among=public,
            drift=drift,
        )
        trained_on = held.num_train - (0 if private is None else jnp.sum(private))
        taken = local_training.upload_steps(
            plan.recipe, trained_on, plan.recipe.batch_size
        )
        steps.append(taken[None])
    return LocalWork(trained, stats, private, estimation, ratio, jnp.concatenate(steps))


def client_round(
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
) -> tuple[Summed, tuple[MechanismState, ClientMetrics]]:
    """One client's round.

    Args:
      client_id: () int32, -1 for an empty place in the cohort.
      row: () int32, the client's row of `cell.split`.
      weight: () p_i of the average.
      key: the round's.
      lane_axes: names of the enclosing vmap axes.

    Returns:
      `((upload, stats, answer), (memory, metrics))`: what is summed, multiplied with
      the weight or as residues of the mechanism's grid, and the client's own rows.
    """
    valid = client_id >= 0
    client = jnp.maximum(client_id, 0)
    held = jax.tree.map(lambda leaf: leaf[row], cell.split)
    held = dataclasses.replace(held, num_train=jnp.where(valid, held.num_train, 0))
    mechanism = make_mechanism(plan.mechanism, cell.mechanism)
    work = local_work(
        model,
        plan,
        cell,
        state,
        examples,
        held,
        mechanism=mechanism,
        key=key,
        client_id=client,
        round_num=round_num,
        lane_axes=lane_axes,
    )
    update = jax.tree.map(jnp.subtract, work.params, state.params)
    sent = partial(
        add_noise,
        mechanism,
        memory=state.mechanism.of(client),
        ratio=work.ratio,
        round_num=round_num,
        key=key,
        client_id=client,
    )
    upload = update
    answered: list[Array] = []
    if work.private is None:
        upload, memory, info = sent(
            update, num_examples=held.num_train, params=state.params
        )
    else:
        answered, memory, info = private_answer.answer(
            sent,
            model,
            plan,
            cell,
            state,
            examples,
            held.train,
            work.private,
            # A share of the cohort's noise is added by those too who hold nothing.
            holds=(jnp.any(work.private) | mechanism.claim.central)
            & (round_num >= cell.mechanism.private_from),
            lane_axes=lane_axes,
        )
    finite = tree.is_finite((upload, work.stats, answered))
    if mechanism.grid is not None and mechanism.claim.central:
        encode = partial(residues, grid=mechanism.grid, std=info.noise_std)
        answered = encode(answered)
        upload = encode(upload) if work.private is None else upload
    metrics = ClientMetrics(
        client_id=client_id,
        num_examples=held.num_train,
        weight=weight,
        update_l2=tree.l2_norm(update),
        finite=finite,
        estimation=work.estimation,
        released_ratio=work.ratio,
        noise=info,
        steps=work.steps,
    )
    summed = aggregation.weighted((upload, work.stats, answered), weight)
    return summed, (memory, metrics)
