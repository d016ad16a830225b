"""A client's local training: E epochs of SGD on the examples it may use.

One loop body serves the whole data set and every coalition: the examples of a
lane are named by a boolean mask, moved to the front of a random order, and the
trip count is what the lanes' own examples need, so that a coalition costs its own data.
An accelerator's may be fixed (`TrainingRecipe.most_steps`).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedsvp_jax.core import losses, prng
from fedsvp_jax.core.float32 import (
    ROUNDOFF,
    in_blocks,
    pairwise_sum,
    reserve,
    rounded,
    weighted_sum,
)
from fedsvp_jax.core.structs import (
    Array,
    Examples,
    Model,
    Number,
    Params,
    Rows,
    Weights,
    cross_entropy,
    iota,
)
from fedsvp_jax.core.tree import where
from fedsvp_jax.data import preprocessing
from fedsvp_jax.devices import lanes
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.models import adapters

_BLOCK = 32  # examples whose gradients one product adds up
Gradient = Literal["mean", "clipped_mean", "per_example"]


class TrainingRecipe(NamedTuple):
    """The settings that are fixed when the step is compiled."""

    batch_size: int
    local_epochs: int
    gradient: Gradient
    places: int | None = None  # room for a Poisson batch; None: shuffled batches
    local_steps: int | None = None  # of Poisson batches; None: local_epochs epochs
    augment: bool = False
    proximal: bool = False
    momentum: float = 0.0  # of the steps; it starts at 0 in every training
    compute_dtype: str = "float32"  # of the model's products; see adapters.in_dtype
    most_steps: int | None = None  # every lane runs so many; None: until all are done
    class_weights: tuple[float, ...] = ()  # of the loss; (): all 1
    separate_clips: bool = False  # of a linear model's residuals and features
    full_batches: bool = False  # most_steps of every lane, none incomplete
    fewer_kernels: bool = False  # as `devices.target` says


class TrainingRates(NamedTuple):
    """The settings that a sweep may vary; every leaf () float32."""

    learning_rate: Number
    l2_norm_clip: Number  # bound on the gradient's (or an example's) global norm
    step_noise_std: Number = 0.0  # DP-SGD: std on the batch-mean gradient
    proximal_mu: Number = 0.0  # mu of mu/2 ||w - w_prev||^2


def steps_per_epoch(num_examples: Array | int, batch_size: Array | int) -> Array:
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


def upload_steps(recipe: TrainingRecipe, num_examples: Array | int) -> Array:
    """Local steps of one upload: E epochs, or the recipe's own number."""
    if recipe.local_steps is not None:
        return recipe.local_steps * jnp.minimum(num_examples, 1)
    return recipe.local_epochs * steps_per_epoch(num_examples, recipe.batch_size)


def shuffled(key: Array, member: Array) -> Array:
    """A random order of the rows (m,) with the members first.

    The bits of row j do not depend on how long the padding is.
    """
    bits = jax.random.bits(key, member.shape, jnp.uint32) >> jnp.uint32(1)
    last = jnp.uint32(0xFFFFFFFF)
    return jnp.argsort(jnp.where(member, bits, last)).astype(jnp.int32)


def _below(key: Array, size: int, limit: Array) -> Array:
    """(size,) uint32 in [0, limit): each a word of 64 bits modulo limit () < 2^31.

    `jax.random.randint` draws the same numbers up to a limit of 2^16, above which its
    product with 2^32 mod limit overflows. Here the upper half is doubled 32 times, and
    its rest is the smaller of d and d - limit, which wraps where d < limit.
    """
    limit = limit.astype(jnp.uint32)
    upper, lower = (
        jax.random.bits(half, (size,), jnp.uint32) % limit
        for half in jax.random.split(key)
    )
    doubled = jax.lax.fori_loop(
        0, 32, lambda _, rest: jnp.minimum(2 * rest, 2 * rest - limit), upper
    )
    return (doubled + lower) % limit


def poisson_batch(
    key: Array,
    member: Array,
    *,
    batch_size: int,
    places: int,
    persons: Array | None = None,
) -> tuple[Array, Array]:
    """A batch in which every member is with probability B/|D|, independently.

    B/|D| is rounded to 64 bits: a record is drawn by a word of 64 bits modulo |D|.
    Where a person is the unit, all of a person's members are drawn by one word (P21).
    A batch that is larger than M is left out as a whole. To keep a part of it would
    let one record push another one out, which no claim covers (docs/appendix, P15).

    Args:
      key: secret, of one step.
      member: (m,) bool: the client's own rows, |D| of them.
      batch_size: B; all members are in the batch where |D| <= B.
      places: M.
      persons: (m,) int32 in [0, m), whose each row is; None: each is drawn by itself.

    Returns:
      (M,) int32 positions of rows, and (M,) float32: 1 in a filled place.
    """
    count = jnp.maximum(jnp.sum(member.astype(jnp.int32)), 1)
    draws = (
        jax.random.randint(key, member.shape, 0, count)
        if member.size <= 1 << 16
        else _below(key, member.size, count)
    )
    if persons is not None:
        draws = draws[persons]
    chosen = member & (draws < batch_size)
    size = jnp.sum(chosen.astype(jnp.int32))
    (position,) = jnp.nonzero(chosen, size=places, fill_value=0)
    filled = iota(places) < jnp.where(size <= places, size, 0)
    return position.astype(jnp.int32), filled.astype(jnp.float32)


class Batch(NamedTuple):
    """The batch of one local step."""

    inputs: Array  # (B, ...) normalised
    targets: Array  # (B, ...) labels or targets
    weights: Array  # (B,) float32: 0 in an empty place
    key: Array  # of dropout


Selected = tuple[Array, Array, Array]  # positions, row numbers and weights of a batch


class Draws(NamedTuple):
    """The keys of a training."""

    key: Array  # of the order of batches; epochs and steps fold in their numbers
    # Of the steps' noise and of Poisson batches, which draw from it alone; None where
    # there are neither.
    secret: Array | None = None


def _mean_loss(
    model: Model, params: Params, stats: Params, batch: Batch
) -> tuple[Array, Params]:
    outputs, stats = model.apply(params, stats, batch.inputs, train=True, key=batch.key)
    total = jnp.sum(model.loss(outputs, batch.targets) * batch.weights)
    return total / jnp.maximum(jnp.sum(batch.weights), jnp.float32(1.0)), stats


_gradient = jax.grad(_mean_loss, argnums=1, has_aux=True)


def _per_example_gradient(
    model: Model, now: Weights, batch: Batch, l2_norm_clip: Number, batch_size: int
) -> Params:
    """DP-SGD (Abadi et al. 2016) without its noise: mean of clipped example gradients.

    The divisor is the batch size B, a constant: with it the mean's L2 sensitivity
    is 2C/B (replace one record), also of the numbers in float32 (`float32.reserve`). A
    Poisson batch holds B records on average.
    """
    inputs, targets, weights, key = batch
    height = math.ceil(math.log2(max(len(inputs), 2)))
    bound = _with_reserve(l2_norm_clip, len(inputs), height)

    def example_gradient(x: Array, y: Array) -> Params:
        ones = jnp.ones((1,), jnp.float32)
        gradient, _ = _gradient(model, *now, Batch(x[None], y[None], ones, key))
        return noise.clip_into_ball(gradient, bound)[0]

    return jax.tree.map(
        lambda gradients: weighted_sum(weights, gradients) * np.float32(1 / batch_size),
        jax.vmap(example_gradient)(inputs, targets),
    )


def _with_reserve(l2_norm_clip: Number, number: int, height: int) -> Array:
    """C/(1 + ρ), to which single gradients are clipped so that their mean keeps C.

    ρ is `float32.reserve`'s, `height` that of the tree of the mean's sums.
    """
    return jnp.float32(l2_norm_clip) * np.float32(1 / (1 + reserve(number, height + 1)))


def _linear_gradient(
    model: Model,
    now: Weights,
    batch: Batch,
    l2_norm_clip: Number,
    batch_size: int,
    *,
    separate_clips: bool,
) -> Params:
    """The result of `_per_example_gradient` for a model with a `gradient_scale`.

    A gradient is the outer product of the residual r = softmax − onehot and the
    features with their 1. It is clipped to C as a whole, or r to 1 and the features to
    C by themselves (`separate_clips`). As a whole, an example of a rare class, whose r
    is long, is shortened more, so that the class is predicted too seldom.

    The norms follow from the gradients by the logits, so no gradient of a single
    example is ever held: a step is one product with the batch for the logits, and one
    with each `_BLOCK` of it, in full precision, for the gradient.

    With u = ROUNDOFF a norm is off by 60u at most, of which `gradient_scale` is half;
    what a gradient by the logits is scaled with, by 3u more. The product adds up a
    block in any order, so H of `float32.reserve` is `_BLOCK` and the height of the tree
    over blocks.
    """
    assert model.gradient_scale is not None
    params, stats = now
    inputs, targets, weights, key = batch

    def logits_of(now: Params, inputs: Array) -> Array:
        return model.apply(now, stats, inputs, train=True, key=key)[0]

    by_logits = jax.grad(lambda logits: jnp.sum(model.loss(logits, targets)))
    residuals = by_logits(logits_of(params, inputs))
    of_residuals = jnp.sqrt(pairwise_sum(jnp.square(residuals.T)))
    of_features = model.gradient_scale(inputs)
    norms = of_residuals * of_features
    num_blocks = -(-len(inputs) // _BLOCK)
    height = _BLOCK + math.ceil(math.log2(num_blocks))
    bound = _with_reserve(l2_norm_clip, len(inputs), height)
    bound *= np.float32(1 - 64 * ROUNDOFF)
    if separate_clips:
        scale, _ = noise.shrinkage(of_residuals, 1.0)
        scale *= noise.shrinkage(of_features, bound)[0]
    else:
        scale, _ = noise.shrinkage(norms, bound)
    scaled = residuals * (weights * scale)[:, None]
    finite = jnp.isfinite(norms)[:, None]  # as `noise.clip_into_ball`
    scaled = jnp.where(finite, scaled, 0)

    def of_block(inputs: Array, scaled: Array) -> Params:
        with jax.default_matmul_precision("highest"):
            return jax.vjp(lambda now: logits_of(now, inputs), params)[1](scaled)[0]

    blocks = (in_blocks(rows, num_blocks, _BLOCK) for rows in (inputs, scaled))
    by_block = jax.vmap(of_block)(*blocks)
    return jax.tree.map(
        lambda leaf: pairwise_sum(leaf) * np.float32(1 / batch_size), by_block
    )


def _batches(
    recipe: TrainingRecipe,
    draws: Draws,
    member: Array,
    count: Array,
    persons: Array | None,
    indices: Array,
) -> Callable[[Array], Selected]:
    """The batch of a step, by its number."""
    places, batch_size = recipe.places, recipe.batch_size
    if places is not None:

        def poisson(number: Array) -> Selected:
            position, weights = poisson_batch(
                _of_step(draws, number, prng.Stream.BATCH),
                member,
                batch_size=batch_size,
                places=places,
                persons=persons,
            )
            return position, indices[position], weights

        return poisson
    per_epoch = steps_per_epoch(count, batch_size)
    orders = jax.lax.map(
        lambda epoch: shuffled(jax.random.fold_in(draws.key, epoch), member),
        iota(recipe.local_epochs),
        # Side by side on an accelerator: each takes a dozen kernels.
        batch_size=recipe.local_epochs if recipe.most_steps else None,
    )

    if recipe.full_batches and recipe.most_steps:
        used = recipe.most_steps // recipe.local_epochs * batch_size
        positions = orders[:, :used].reshape(-1, batch_size)
        chosen = indices[positions]
        ones = jnp.ones(batch_size, jnp.float32)
        cut = partial(jax.lax.dynamic_index_in_dim, keepdims=False)
        return lambda number: (cut(positions, number), cut(chosen, number), ones)

    def of_order(number: Array) -> Selected:
        epoch = jnp.minimum(
            number // jnp.maximum(per_epoch, 1), recipe.local_epochs - 1
        )
        place = (number % jnp.maximum(per_epoch, 1)) * batch_size + iota(batch_size)
        # One by one: a TPU cuts slices that start elsewhere in every lane in a loop.
        position = orders.reshape(-1)[epoch * orders.shape[1] + place]
        in_lane = place < count
        # An incomplete batch is filled up with its own first example, at weight 0.
        padded = jnp.where(in_lane, position, position[0])
        weights = in_lane.astype(jnp.float32)
        return padded, indices[padded], weights

    return of_order


def _of_step(draws: Draws, number: Array, stream: prng.Stream) -> Array:
    assert draws.secret is not None
    return prng.stream_key(jax.random.fold_in(draws.secret, number), stream)


def _without_scatter(logits: Array, labels: Array) -> Array:
    """`cross_entropy` up to rounding, for a GPU.

    The gradient is softmax − onehot. Of the number that a label points at, JAX's own
    scatters, which takes kernels of its own and, in a fixed order, a sort.
    """
    return jax.nn.logsumexp(logits, -1) - jnp.sum(
        logits, -1, where=labels[:, None] == iota(logits.shape[-1])[None]
    )


def _trainee(model: Model, recipe: TrainingRecipe) -> Model:
    """The model with the recipe's number format and weights of the classes."""
    model = adapters.in_dtype(model, recipe.compute_dtype)
    if recipe.fewer_kernels and model.loss is cross_entropy:
        model = model._replace(loss=_without_scatter)
    if recipe.class_weights:
        model = losses.weighted(model, recipe.class_weights)
    return model


def _clipped_mean(model: Model, recipe: TrainingRecipe) -> Callable[..., Params]:
    """The mean of the gradients of a batch, clipped one by one."""
    if model.gradient_scale is None:
        return partial(_per_example_gradient, model)
    return partial(_linear_gradient, model, separate_clips=recipe.separate_clips)


def _batch(
    recipe: TrainingRecipe,
    examples: Examples,
    position: Array,
    chosen: Array,
    weights: Array,
    key: Array,
) -> Batch:
    """The rows of these numbers, which have these positions among a client's."""
    pixels = examples.inputs[chosen]
    if recipe.augment:
        # By the record, not by its place in the batch: there, a record that joins a
        # Poisson batch would change the crops of those behind it (P15).
        pixels = preprocessing.random_crop_and_flip(
            pixels, position, key=jax.random.fold_in(key, 1)
        )
    return Batch(
        preprocessing.normalize(pixels), examples.loss_targets[chosen], weights, key
    )


def clipped_gradient(
    model: Model,
    recipe: TrainingRecipe,
    rates: TrainingRates,
    broadcast: Weights,
    rows: Rows,
    key: Array,
    *,
    batch_size: int,
) -> Params:
    """1/B Σ clip(∇ℓ(w; x), C) of all of a client's rows x at the broadcast model w.

    It is the gradient of `local_update`'s first step on a batch of all rows, before its
    noise. Two clients' that differ in one row are C/B apart at most, where it is left
    out, and 2C/B, where it is replaced, also of the numbers in float32.

    Args:
      key: of dropout and crops.
      batch_size: B, on which the noise rests; a client's own rows may be fewer.
    """
    model = _trainee(model, recipe)
    places = iota(len(rows.indices))
    weights = rows.member.astype(jnp.float32)
    batch = _batch(recipe, rows.examples, places, rows.indices, weights, key)
    gradient = _clipped_mean(model, recipe)(
        broadcast, batch, rates.l2_norm_clip, batch_size
    )
    return rounded(gradient, jnp.minimum(jnp.sum(rows.member), 0))


def local_update(
    model: Model,
    recipe: TrainingRecipe,
    rates: TrainingRates,
    start: Weights,
    rows: Rows,
    draws: Draws,
    *,
    lane_axes: tuple[str, ...] = (),
    drift: Params | None = None,
) -> Weights:
    """Trains a copy of the broadcast model on the member examples of one client.

    Each step: w <- w - eta * u, u <- momentum * u + g, with g the batch-mean gradient
    ("mean"), the same scaled to ||g|| <= C as one vector ("clipped_mean": FedSDP's
    public code), or DP-SGD's ("per_example"); FedProx adds mu * (w - w_prev) to it. The
    model's products are computed in `recipe.compute_dtype`; weights, gradients, clip
    and noise are float32.

    Args:
      start: the broadcast model, which a lane without examples returns.
      lane_axes: names of the enclosing vmap axes.
      drift: as the model's weights; is added to the gradient of every step, last.
    """
    model = _trainee(model, recipe)
    optimizer = optax.sgd(rates.learning_rate, momentum=recipe.momentum or None)
    examples, indices, member = rows
    count = jnp.sum(member)
    num_steps = upload_steps(recipe, count)
    per_example = recipe.gradient == "per_example"
    persons = examples.persons
    if persons is not None:
        _, persons = jnp.unique(  # as numbers below m
            persons[indices], return_inverse=True, size=len(indices)
        )
    batch_at = _batches(recipe, draws, member, count, persons, indices)

    def step(
        number: Array, carry: tuple[Params, Params, optax.OptState]
    ) -> tuple[Params, Params, optax.OptState]:
        weights_now, stats_now, optimizer_state = carry
        active = number < num_steps
        step_key = jax.random.fold_in(draws.key, recipe.local_epochs + number)
        batch = _batch(recipe, examples, *batch_at(number), step_key)
        if per_example:
            gradient = _clipped_mean(model, recipe)(
                Weights(weights_now, stats_now),
                batch,
                rates.l2_norm_clip,
                recipe.batch_size,
            )
            gradient = rounded(gradient, jnp.minimum(count, 0))
            gradient, _ = noise.add_gaussian_noise(
                gradient,
                rates.step_noise_std,
                key=_of_step(draws, number, prng.Stream.DP_SGD),
            )
            stats_new = stats_now
        else:
            gradient, stats_new = _gradient(model, weights_now, stats_now, batch)
        if recipe.gradient == "clipped_mean":
            gradient, _ = noise.clip_by_l2_norm(gradient, rates.l2_norm_clip)
        if recipe.proximal:
            gradient = jax.tree.map(
                lambda g, w, w0: g + rates.proximal_mu * (w - w0),
                gradient,
                weights_now,
                start.params,
            )
        if drift is not None:
            gradient = optax.tree.add(gradient, drift)
        updates, optimizer_new = optimizer.update(
            gradient, optimizer_state, weights_now
        )
        if per_example:
            updates = rounded(updates, jnp.minimum(count, 0))
        if not recipe.full_batches:
            updates = where(active, updates)
            stats_new = where(active, stats_new, stats_now)
            optimizer_new = where(active, optimizer_new, optimizer_state)
        return optax.apply_updates(weights_now, updates), stats_new, optimizer_new

    first, begin = (*start, optimizer.init(start.params)), 0
    if recipe.fewer_kernels and recipe.most_steps:
        first, begin = step(jnp.int32(0), first), 1
    with jax.named_scope("steps"):
        trained, stats, _ = jax.lax.fori_loop(
            begin, recipe.most_steps or lanes.largest(num_steps, lane_axes), step, first
        )
    return Weights(trained, stats)
