"""The 2x2 max-pool, with a gradient that CPUs and GPUs compute in one pass."""

import jax
import jax.numpy as jnp

from fedsvp_jax.structs import Array


@jax.custom_vjp
def max_pool_2x2(x: Array) -> Array:
    """`kernels.max_pool_2x2`; ties as in `lax.reduce_window` and PyTorch."""
    a, b, c, d = _corners(x)
    return jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))


def _corners(x: Array) -> list[Array]:
    """The four elements of every window, each (batch, H // 2, W // 2, C)."""
    height, width = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    return [x[:, u:height:2, v:width:2] for u in (0, 1) for v in (0, 1)]


def _forward(x: Array) -> tuple[Array, tuple[Array, Array]]:
    a, b, c, d = _corners(x)
    top, bottom = jnp.maximum(a, b), jnp.maximum(c, d)
    zero, one, two, three = (jnp.int8(i) for i in range(4))
    winner = jnp.where(
        top >= bottom, jnp.where(a >= b, zero, one), jnp.where(c >= d, two, three)
    )
    # The empty slice keeps the shape of x: whether it had an odd row or column.
    return jnp.maximum(top, bottom), (winner, x[:0])


def _backward(residuals: tuple[Array, Array], gradient: Array) -> tuple[Array]:
    winner, like = residuals
    batch, rows, columns, channels = gradient.shape
    corner = jnp.arange(4, dtype=jnp.int8).reshape(1, 1, 2, 1, 2, 1)
    hit = winner[:, :, None, :, None] == corner
    full = jnp.where(hit, gradient[:, :, None, :, None], jnp.zeros((), gradient.dtype))
    full = full.reshape(batch, 2 * rows, 2 * columns, channels)
    odd = ((0, like.shape[1] % 2), (0, like.shape[2] % 2))
    return (jnp.pad(full, ((0, 0), *odd, (0, 0))),)


max_pool_2x2.defvjp(_forward, _backward)
