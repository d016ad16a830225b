"""Values within one training run, as Wang et al. (arXiv 2406.11011) define them.

A local step moves the weights by the sum of d_a over the attributes, with

    d_a = -learning rate * clip factor * (sum over the batch's examples of a of their
          gradients)/B

and is a game of its own: with L the mean validation loss, the players' first-order
values are -<grad L, d_a>, and those of the game to second order are
-<grad L + H d/2, d_a> with H the Hessian of L and d the whole step. An attribute's
value is the sum over the steps of the local training, which is done anyway.
"""

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax import prng
from fedsvp_jax.algorithm import local_training
from fedsvp_jax.algorithm.state import ServerState
from fedsvp_jax.data import preprocessing
from fedsvp_jax.federation import Program
from fedsvp_jax.structs import Array, Params
from fedsvp_jax.tree import cell_of, l2_norm


def _inner(left: Params, right: Params) -> Array:
    products = jax.tree.map(jnp.vdot, left, right)
    return jnp.sum(jnp.stack(jax.tree.leaves(products)))


def in_run(
    program: Program, order: int, state: ServerState, client_id: Array, key: Array
) -> tuple[Params, Array]:
    """Trains a client as a run does, and divides among attributes what each step gains.

    Args:
      program: of the run. A proximal term moves the model too, but is no attribute's.
      order: 1 or 2.
      state: the broadcast model.
      key: the round's.

    Returns:
      The trained parameters, and the values (N,) float32 in nats.
    """
    plan, cell = program.plan, cell_of(program.cells, 0)
    examples, held = program.data.examples, cell_of(cell.split, client_id)
    recipe, rates, model = plan.recipe, cell.rates, program.model
    key = prng.stream_key(key, prng.Stream.LOCAL_TRAINING, client_id)
    member = jnp.arange(held.train.shape[0], dtype=jnp.int32) < held.num_train
    per_epoch = local_training.steps_per_epoch(held.num_train, recipe.batch_size)
    orders = jax.lax.map(
        lambda epoch: local_training.shuffled(jax.random.fold_in(key, epoch), member),
        jnp.arange(recipe.local_epochs, dtype=jnp.int32),
    )

    def losses(
        params: Params, indices: Array, position: Array, key: Array | None
    ) -> Array:
        rows = indices[position]
        pixels = examples.inputs[rows]
        if key is not None and recipe.augment:
            crop_key = jax.random.fold_in(key, 1)
            pixels = preprocessing.random_crop_and_flip(pixels, position, key=crop_key)
        inputs = preprocessing.normalize(pixels)
        train = key is not None
        logits, _ = model.apply(params, state.stats, inputs, train=train, key=key)
        labels = examples.labels[rows]
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels)

    counted = jnp.arange(held.validation.shape[0], dtype=jnp.int32)
    counted = (counted < held.num_validation).astype(jnp.float32)

    def validation_loss(params: Params) -> Array:
        every = jnp.arange(held.validation.shape[0], dtype=jnp.int32)
        total = jnp.sum(losses(params, held.validation, every, None) * counted)
        return total / jnp.maximum(jnp.sum(counted), 1)

    def step(number: Array, carry: tuple[Params, Array]) -> tuple[Params, Array]:
        params, values = carry
        epoch = number // jnp.maximum(per_epoch, 1)
        start = number % jnp.maximum(per_epoch, 1) * recipe.batch_size
        size = (1, recipe.batch_size)
        position = jax.lax.dynamic_slice(orders, (epoch, start), size)[0]
        in_lane = start + jnp.arange(recipe.batch_size, dtype=jnp.int32)
        in_lane = in_lane < held.num_train
        position = jnp.where(in_lane, position, position[0])
        rows = held.train[position]
        step_key = jax.random.fold_in(key, recipe.local_epochs + number)
        shares = in_lane.astype(jnp.float32)
        shares = shares / jnp.maximum(jnp.sum(shares), 1)
        _, pull = jax.vjp(
            lambda now: losses(now, held.train, position, step_key), params
        )
        # The models have no forward-mode derivatives, so <gradient of an example's
        # loss, v> is the transpose of its pull-back at v.
        (gradient,), push = jax.vjp(pull, shares)
        rate = jnp.asarray(rates.learning_rate)
        if recipe.gradient != "mean":
            norm = l2_norm(gradient)
            bound = jnp.asarray(rates.l2_norm_clip)
            rate = rate * jnp.where(norm > bound, bound / norm, 1)
        pulled = rates.learning_rate * rates.proximal_mu
        move = jax.tree.map(
            lambda leaf, now, start: -rate * leaf - pulled * (now - start),
            gradient,
            params,
            state.params,
        )
        slope = jax.grad(validation_loss)(params)
        if order == 2:
            bend = jax.grad(lambda now: _inner(jax.grad(validation_loss)(now), move))(
                params
            )
            slope = jax.tree.map(lambda first, more: first + more / 2, slope, bend)
        gains = rate * shares * push((slope,))[0]
        values = values.at[examples.attributes[rows]].add(gains)
        return optax.apply_updates(params, move), values

    nothing = jnp.zeros((plan.estimation.num_attributes,))
    num_steps = recipe.local_epochs * per_epoch
    return jax.lax.fori_loop(0, num_steps, step, (state.params, nothing))
