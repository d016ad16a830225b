"""FedAvg: the cohort's uploads become the next model, in one fixed order."""

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax.core import optimizers
from fedsvp_jax.core.float32 import reciprocal
from fedsvp_jax.core.structs import Array, Params
from fedsvp_jax.core.tree import where


def client_weights(num_examples: Array, valid: Array, *, uniform: bool) -> Array:
    """(K,) weights p_i that sum to 1 over the valid clients.

    p_i = n_i / n (McMahan et al. 2017; FedSVA sec. 2.1), or 1/K when `uniform`
    (the FedSDP authors' code). A client that is not valid weighs 0.
    """
    sizes = jnp.ones_like(num_examples) if uniform else num_examples
    sizes = jnp.where(valid, sizes, 0).astype(jnp.float32)
    return sizes * reciprocal(jnp.maximum(jnp.sum(sizes), jnp.float32(1.0)))


def weighted(upload: Params, weight: Array) -> Params:
    """p_i x_i, a client's own part of the average; zero where the weight is zero.

    Residues (uint32) are added up as they are: the server divides their sum.

    Each client multiplies in its own lane, and the server only adds, in the order of
    the lanes (`lanes.map_lanes`).
    """

    def part(leaf: Array) -> Array:
        is_residue = leaf.dtype == jnp.uint32
        scaled = leaf if is_residue else leaf * weight.astype(leaf.dtype)
        return jnp.where(weight > 0, scaled, 0)

    return jax.tree.map(part, upload)


def optimizer_step(
    update: Params,
    state: optax.OptState | None,
    settings: optimizers.ServerSettings,
    *,
    anyone: Array,
) -> tuple[Params, optax.OptState | None]:
    """The server's step, and its optimiser's state after it.

    A round without clients changes neither the model nor the state.

    Args:
      update: the average, which is the optimiser's descent direction.
      state: before the step; None in FedAvg, whose step is the average.
      anyone: () bool: whether a client took part.
    """
    if state is None:
        return update, None
    optimizer = optimizers.server_optimizer(settings)
    with jax.numpy_dtype_promotion("standard"):  # optax raises floats to a count
        updates, after = optimizer.update(jax.tree.map(jnp.negative, update), state)
    step = where(anyone, updates)
    return step, where(anyone, after, state)
