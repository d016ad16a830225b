"""FedAvg: the cohort's uploads become the next model, in one fixed order."""

import jax
import jax.numpy as jnp

from fedsvp_jax.structs import Array, Params


def client_weights(num_examples: Array, valid: Array, *, uniform: bool) -> Array:
    """(K,) weights p_i that sum to 1 over the valid clients.

    p_i = n_i / n (McMahan et al. 2017; FedSVA sec. 2.1), or 1/K when `uniform`
    (the FedSDP authors' code). A client that is not valid weighs 0.
    """
    sizes = jnp.ones_like(num_examples) if uniform else num_examples
    sizes = jnp.where(valid, sizes, 0).astype(jnp.float32)
    return sizes / jnp.maximum(jnp.sum(sizes), jnp.float32(1.0))


def weighted_sum(uploads: Params, weights: Array) -> Params:
    """Σ_i p_i x_i over the leading axis, added from the first client to the last.

    The barrier and the written-out order keep the sum's bits the same on any
    number of devices (psum's order is the interconnect's).
    """
    uploads = jax.lax.optimization_barrier(uploads)

    def add_up(rows: Array) -> Array:
        total = rows[0] * weights[0].astype(rows.dtype)
        for i in range(1, rows.shape[0]):
            total = total + rows[i] * weights[i].astype(rows.dtype)
        return total

    return jax.tree.map(add_up, uploads)
