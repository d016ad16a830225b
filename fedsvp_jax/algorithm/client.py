"""What one client does in a round: train, estimate, add noise, upload."""

import dataclasses

import jax
import jax.numpy as jnp

from fedsvp_jax import prng, tree
from fedsvp_jax.algorithm import (
    aggregation,
    local_training,
    privacy_estimation,
)
from fedsvp_jax.algorithm.state import Cell, ClientMetrics, RoundPlan, ServerState
from fedsvp_jax.mechanisms import make_mechanism, release_contribution
from fedsvp_jax.structs import (
    Array,
    Examples,
    MechanismState,
    Model,
    Params,
)


def client_update(
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
    finite = tree.all_finite((upload, stats))
    metrics = ClientMetrics(
        client_id=client_id,
        num_examples=held.num_train,
        weight=weight,
        update_l2=tree.l2_norm(update),
        finite=finite,
        estimation=estimation,
        released_ratio=ratio,
        noise=info,
        steps=jnp.stack(steps),
    )
    return aggregation.weighted((upload, stats), weight), (client_state, metrics)
