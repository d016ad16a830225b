"""A client's local training: E epochs of SGD on the examples it may use.

One loop body serves the whole data set and every coalition: the examples of a
lane are named by a boolean mask, moved to the front of a random order, and the
trip count is what that lane's own examples need. A coalition costs its own data.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

import flax.struct
import jax
import jax.numpy as jnp
import optax

from fedsvp_jax import prng
from fedsvp_jax.data import preprocessing
from fedsvp_jax.devices import lanes
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.models import adapters
from fedsvp_jax.structs import Array, Examples, Model, Params

Gradient: TypeAlias = Literal["mean", "clipped_mean", "per_example"]


@dataclasses.dataclass(frozen=True)
class TrainingRecipe:
    """What is fixed when the step is compiled."""

    batch_size: int
    local_epochs: int
    gradient: Gradient
    places: int | None = None  # room for a Poisson batch; None: shuffled batches
    local_steps: int | None = None  # of Poisson batches; None: local_epochs epochs
    augment: bool = False
    proximal: bool = False
    momentum: float = 0.0  # of the steps; it starts at 0 in every training
    compute_dtype: str = "float32"  # of the model's products; see adapters.in_dtype


@flax.struct.dataclass
class TrainingRates:
    """What a sweep may vary; every leaf () float32."""

    learning_rate: Array | float
    l2_norm_clip: Array | float  # bound on the gradient's (or an example's) global norm
    step_noise_std: Array | float  # DP-SGD: std on the batch-mean gradient
    proximal_mu: Array | float  # mu of mu/2 ||w - w_prev||^2


def steps_per_epoch(num_examples: Array, batch_size: Array | int) -> Array:
    """Full batches only, as published; a lane smaller than one batch takes one.

    The last incomplete batch is dropped (FedSDP's public code). A client or
    coalition with fewer than `batch_size` examples would then never train, so it
    trains on the one incomplete batch that it has; without examples, on none.
    """
    return jnp.where(
        num_examples >= batch_size,
        num_examples // batch_size,
        jnp.minimum(num_examples, 1),
    )


def upload_steps(
    recipe: TrainingRecipe, num_examples: Array, batch_size: Array | int
) -> Array:
    """Local steps of one upload: E epochs, or the recipe's own number."""
    if recipe.local_steps is not None:
        return recipe.local_steps * jnp.minimum(num_examples, 1)
    return recipe.local_epochs * steps_per_epoch(num_examples, batch_size)


def shuffled(key: Array, member: Array) -> Array:
    """A random order of the rows (m,) with the members first.

    The bits of row j do not depend on how long the padding is.
    """
    bits = jax.random.bits(key, member.shape, jnp.uint32) >> jnp.uint32(1)
    last = jnp.uint32(0xFFFFFFFF)
    return jnp.argsort(jnp.where(member, bits, last)).astype(jnp.int32)


def poisson_batch(
    key: Array, member: Array, *, batch_size: int, places: int
) -> tuple[Array, Array]:
    """A batch in which every member is with probability B/|D|, independently.

    A batch that is larger than M is left out as a whole. To keep a part of it would
    let one record push another one out, which no claim covers (docs/privacy.md, P15).

    Args:
      key: secret, of one step.
      member: (m,) bool: the client's own rows, |D| of them.
      batch_size: B; all members are in the batch where |D| <= B.
      places: M.

    Returns:
      (M,) int32 positions of rows, and (M,) float32: 1 in a place that is taken.
    """
    count = jnp.maximum(jnp.sum(member.astype(jnp.int32)), 1)
    chosen = member & (jax.random.randint(key, member.shape, 0, count) < batch_size)
    size = jnp.sum(chosen.astype(jnp.int32))
    (position,) = jnp.nonzero(chosen, size=places, fill_value=0)
    taken = jnp.arange(places, dtype=jnp.int32) < jnp.where(size <= places, size, 0)
    return position.astype(jnp.int32), taken.astype(jnp.float32)


def _mean_loss(
    model: Model,
    params: Params,
    stats: Params,
    inputs: Array,
    wanted: Array,
    weights: Array,
    key: Array,
) -> tuple[Array, Params]:
    outputs, stats = model.apply(params, stats, inputs, train=True, key=key)
    losses = model.loss(outputs, wanted)
    total = jnp.sum(losses * weights)
    return total / jnp.maximum(jnp.sum(weights), jnp.float32(1.0)), stats


def _per_example_gradient(
    loss: Callable[..., tuple[Array, Params]],
    params: Params,
    stats: Params,
    inputs: Array,
    wanted: Array,
    weights: Array,
    key: Array,
    l2_norm_clip: Array | float,
    batch_size: int,
) -> Params:
    """DP-SGD (Abadi et al. 2016) without its noise: mean of clipped example gradients.

    The divisor is the batch size B, a constant: with it the mean's L2 sensitivity
    is 2C/B (replace one record). A Poisson batch holds B records on average.
    """

    def one(x: Array, y: Array) -> Params:
        ones = jnp.ones((1,), jnp.float32)
        gradient, _ = jax.grad(loss, has_aux=True)(
            params, stats, x[None], y[None], ones, key
        )
        return noise.clip_into_ball(gradient, l2_norm_clip)[0]

    gradients = jax.vmap(one)(inputs, wanted)
    return jax.tree.map(
        lambda g: jnp.tensordot(weights, g, axes=1) / batch_size, gradients
    )


def _linear_gradient(
    model: Model,
    params: Params,
    stats: Params,
    inputs: Array,
    wanted: Array,
    weights: Array,
    key: Array,
    l2_norm_clip: Array | float,
    batch_size: int,
) -> Params:
    """What `_per_example_gradient` computes, for a model that has a `gradient_scale`.

    The norms follow from the gradients by the logits, so no gradient of a single
    example is ever held: a step is two products with the batch.
    """
    assert model.gradient_scale is not None

    def by_logits(logits: Array) -> Array:
        return jnp.sum(model.loss(logits, wanted))

    logits, pull_back = jax.vjp(
        lambda now: model.apply(now, stats, inputs, train=True, key=key)[0], params
    )
    residuals = jax.grad(by_logits)(logits)
    norms = jnp.sqrt(jnp.sum(jnp.square(residuals), axis=-1))
    norms = norms * model.gradient_scale(inputs)
    bound = jnp.asarray(l2_norm_clip, jnp.float32)
    clipped = norms > bound
    scale = jnp.where(clipped, bound / jnp.where(clipped, norms, 1.0), 1.0)
    scaled = residuals * (weights * scale / batch_size)[:, None]
    finite = jnp.isfinite(norms)[:, None]  # as `noise.clip_into_ball`
    return pull_back(jnp.where(finite, scaled, 0))[0]


def _batches(
    recipe: TrainingRecipe,
    key: Array,
    indices: Array,
    member: Array,
    count: Array,
    batch_size: int,
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """The batch of a step, by the step's number and key: (rows, weights)."""
    places = recipe.places
    if places is not None:

        def poisson(number: Array, step_key: Array) -> tuple[Array, Array]:
            del number
            position, weights = poisson_batch(
                prng.stream_key(step_key, prng.Stream.BATCH),
                member,
                batch_size=batch_size,
                places=places,
            )
            return indices[position], weights

        return poisson
    per_epoch = steps_per_epoch(count, batch_size)
    orders = jax.lax.map(
        lambda epoch: shuffled(jax.random.fold_in(key, epoch), member),
        jnp.arange(recipe.local_epochs, dtype=jnp.int32),
    )

    def of_order(number: Array, step_key: Array) -> tuple[Array, Array]:
        del step_key
        epoch = jnp.minimum(
            number // jnp.maximum(per_epoch, 1), recipe.local_epochs - 1
        )
        start = (number % jnp.maximum(per_epoch, 1)) * batch_size
        position = jax.lax.dynamic_slice(orders, (epoch, start), (1, batch_size))[0]
        in_lane = start + jnp.arange(batch_size, dtype=jnp.int32) < count
        # An incomplete batch is filled up with its own first example, at weight 0.
        rows = indices[jnp.where(in_lane, position, position[0])]
        return rows, in_lane.astype(jnp.float32)

    return of_order


def local_update(
    model: Model,
    recipe: TrainingRecipe,
    rates: TrainingRates,
    params: Params,
    stats: Params,
    examples: Examples,
    indices: Array,
    member: Array,
    *,
    key: Array,
    batch_size: int,
    lane_axes: tuple[str, ...],
    drift: Params | None = None,
) -> tuple[Params, Params]:
    """Trains a copy of the broadcast model on the member examples of one client.

    Each step: w <- w - eta * u, u <- momentum * u + g, with g the batch-mean gradient
    ("mean"), the same scaled to ||g|| <= C as one vector ("clipped_mean": FedSDP's
    public code), or DP-SGD's ("per_example"); FedProx adds mu * (w - w_prev) to it. The
    model's products are computed in `recipe.compute_dtype`; weights, gradients, clip
    and noise are float32.

    Args:
      indices: (m,) rows of `examples` that the client holds, padded.
      member: (m,) bool, true where a row may be used in this lane.
      key: this lane's key; epochs and steps fold in their numbers.
      batch_size: at most `recipe.batch_size`; a static shape.
      lane_axes: names of the enclosing vmap axes.
      drift: as the model's weights; is added to the gradient of every step, last.

    Returns:
      The trained `(params, stats)`; unchanged for a lane without examples.
    """
    model = adapters.in_dtype(model, recipe.compute_dtype)
    optimizer = optax.sgd(rates.learning_rate, momentum=recipe.momentum or None)
    count = jnp.sum(member.astype(jnp.int32))
    num_steps = upload_steps(recipe, count, batch_size)
    loss = partial(_mean_loss, model)
    batch_at = _batches(recipe, key, indices, member, count, batch_size)

    def step(
        number: Array, carry: tuple[Params, Params, optax.OptState]
    ) -> tuple[Params, Params, optax.OptState]:
        weights_now, stats_now, optimizer_state = carry
        active = number < num_steps
        step_key = jax.random.fold_in(key, recipe.local_epochs + number)
        rows, weights = batch_at(number, step_key)
        pixels = examples.inputs[rows]
        if recipe.augment:
            pixels = preprocessing.random_crop_and_flip(
                pixels, key=jax.random.fold_in(step_key, 1)
            )
        batch = (
            stats_now,
            preprocessing.normalize(pixels),
            examples.wanted[rows],
            weights,
            step_key,
        )
        if recipe.gradient == "per_example":
            told = (*batch, rates.l2_norm_clip, batch_size)
            gradient = (
                _per_example_gradient(loss, weights_now, *told)
                if model.gradient_scale is None
                else _linear_gradient(model, weights_now, *told)
            )
            gradient, _ = noise.add_gaussian_noise(
                gradient,
                rates.step_noise_std,
                key=prng.stream_key(step_key, prng.Stream.DP_SGD),
            )
            stats_new = stats_now
        else:
            gradient, stats_new = jax.grad(loss, has_aux=True)(weights_now, *batch)
        if recipe.gradient == "clipped_mean":
            gradient, _ = noise.clip_by_l2_norm(gradient, rates.l2_norm_clip)
        if recipe.proximal:
            gradient = jax.tree.map(
                lambda g, w, w0: g + rates.proximal_mu * (w - w0),
                gradient,
                weights_now,
                params,
            )
        if drift is not None:
            gradient = jax.tree.map(jnp.add, gradient, drift)
        updates, optimizer_new = optimizer.update(
            gradient, optimizer_state, weights_now
        )
        updates = jax.tree.map(lambda u: jnp.where(active, u, 0), updates)
        stats_new, optimizer_new = jax.tree.map(
            lambda new, old: jnp.where(active, new, old),
            (stats_new, optimizer_new),
            (stats_now, optimizer_state),
        )
        return optax.apply_updates(weights_now, updates), stats_new, optimizer_new

    trained, stats, _ = jax.lax.fori_loop(
        0,
        lanes.largest(num_steps, lane_axes),
        step,
        (params, stats, optimizer.init(params)),
    )
    return trained, stats
