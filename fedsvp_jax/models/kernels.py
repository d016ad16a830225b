"""The products of networks: one face, with one set of kernels for each kind of device.

"tpu" are XLA's own operations. So are "cuda", but for the gradients of a convolution
(`grouped`) and of the pool, for which XLA's own takes three kernels and scatters. "cpu"
are matrix products that XLA:CPU runs fast (`convolution`, `products`). All compute the
same up to rounding; `tests/models/test_convolution.py` holds them together.
"""

from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from fedsvp_jax.core.structs import Array

from . import convolution, grouped, products

Kernels = Literal["cpu", "cuda", "tpu"]


def conv2d(x: Array, kernel: Array, *, stride: int = 1, kernels: Kernels) -> Array:
    """Cross-correlation y[b,i,j,o] = sum_{u,v,c} x[b, s i + u, s j + v, c] k[u,v,c,o].

    The image has a border of zeros, half the kernel's height and width (`border`).

    Args:
      x: (batch, height, width, in) float32.
      kernel: (kernel_height, kernel_width, in, out).
      stride: s, down and across.
      kernels: of the device.

    Returns:
      (batch, out_height, out_width, out).
    """
    conv = {
        "cpu": convolution.conv2d,
        "cuda": grouped.conv2d,
        "tpu": grouped.plain_conv2d,
    }
    return conv[kernels](x, kernel, stride)


def relu_pool(x: Array, bias: Array, *, kernels: Kernels) -> Array:
    """relu(m + b) of the maximum m of every 2x2 window, stride 2.

    An odd last row or column is dropped. The gradient goes to one element of each
    window, the first of its maxima in row-major order.
    """
    if kernels == "cuda":
        return one_pass_pool(x, bias[None, None, None])
    pooled = one_pass_pool(x) if kernels == "cpu" else nn.max_pool(x, (2, 2), (2, 2))
    return nn.relu(pooled + bias[None, None, None])


def matmul(x: Array, kernel: Array, *, kernels: Kernels) -> Array:
    """x W^T for x (batch, in) and W (out, in)."""
    return products.matmul(x, kernel) if kernels == "cpu" else x @ kernel.T


@jax.custom_vjp
def one_pass_pool(x: Array, *bias: Array) -> Array:
    """2x2 max-pool with a gradient in one pass; ties as in `lax.reduce_window`.

    With a bias it is `relu_pool`.
    """
    a, b, c, d = _corners(x)
    y = jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))
    return nn.relu(y + bias[0]) if bias else y


def _corners(x: Array) -> list[Array]:
    """The four elements of every window, each (batch, H // 2, W // 2, C)."""
    height, width = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    return [x[:, u:height:2, v:width:2] for u in (0, 1) for v in (0, 1)]


def _forward(x: Array, *bias: Array) -> tuple[Array, list[Array]]:
    a, b, c, d = _corners(x)
    top, bottom = jnp.maximum(a, b), jnp.maximum(c, d)
    corner = [jnp.int8(i) for i in range(5)]
    winner = jnp.where(
        top >= bottom,
        jnp.where(a >= b, corner[0], corner[1]),
        jnp.where(c >= d, corner[2], corner[3]),
    )
    y = jnp.maximum(top, bottom)
    if bias:
        y = nn.relu(y + bias[0])
        # A byte is all that the gradient reads: 4 is no corner. Without the barrier a
        # GPU would compute it there again, from x.
        winner = jax.lax.optimization_barrier(jnp.where(y > 0, winner, corner[4]))
    # The empty slice keeps the shape of x: whether it had an odd row or column.
    return y, [winner, x[:0], *bias]


def _backward(residuals: list[Array], gradient: Array) -> tuple[Array, ...]:
    winner, like, *bias = residuals
    corner = jnp.arange(4, dtype=jnp.int8).reshape(1, 1, 2, 1, 2, 1)
    hit = winner[:, :, None, :, None] == corner
    full = products.joined(jnp.where(hit, gradient[:, :, None, :, None], 0))
    edges = [(0, side % 2) for side in like.shape[1:3]]
    full = jnp.pad(full, ((0, 0), *edges, (0, 0)))
    return full, *(jnp.sum(full, (0, 1, 2), keepdims=True) for _ in bias)


one_pass_pool.defvjp(_forward, _backward)
