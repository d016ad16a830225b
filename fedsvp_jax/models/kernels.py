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
from .grouped import plain_conv2d

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
    conv = {"cpu": convolution.conv2d, "cuda": grouped.conv2d, "tpu": plain_conv2d}
    return conv[kernels](x, kernel, stride)


def max_pool_2x2(x: Array, *, kernels: Kernels) -> Array:
    """The maximum of every 2x2 window, stride 2; an odd last row or column is dropped.

    The gradient goes to one element of each window, the first of its maxima in
    row-major order.
    """
    if kernels != "tpu":
        return one_pass_pool(x)
    return nn.max_pool(x, (2, 2), (2, 2))


def matmul(x: Array, kernel: Array, *, kernels: Kernels) -> Array:
    """x W^T for x (batch, in) and W (out, in)."""
    return products.matmul(x, kernel) if kernels == "cpu" else x @ kernel.T


@jax.custom_vjp
def one_pass_pool(x: Array) -> Array:
    """`max_pool_2x2` with a gradient in one pass; ties as in `lax.reduce_window`."""
    a, b, c, d = _corners(x)
    return jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))


def _corners(x: Array) -> list[Array]:
    """The four elements of every window, each (batch, H // 2, W // 2, C)."""
    height, width = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    return [x[:, u:height:2, v:width:2] for u in (0, 1) for v in (0, 1)]


def _forward(x: Array) -> tuple[Array, tuple[Array, Array]]:
    a, b, c, d = _corners(x)
    top, bottom = jnp.maximum(a, b), jnp.maximum(c, d)
    corner = [jnp.int8(i) for i in range(4)]
    winner = jnp.where(
        top >= bottom,
        jnp.where(a >= b, corner[0], corner[1]),
        jnp.where(c >= d, corner[2], corner[3]),
    )
    # The empty slice keeps the shape of x: whether it had an odd row or column.
    return jnp.maximum(top, bottom), (winner, x[:0])


def _backward(residuals: tuple[Array, Array], gradient: Array) -> tuple[Array]:
    winner, like = residuals
    corner = jnp.arange(4, dtype=jnp.int8).reshape(1, 1, 2, 1, 2, 1)
    hit = winner[:, :, None, :, None] == corner
    full = products.joined(jnp.where(hit, gradient[:, :, None, :, None], 0))
    edges = ((0, like.shape[1] % 2), (0, like.shape[2] % 2))
    return (jnp.pad(full, ((0, 0), *edges, (0, 0))),)


one_pass_pool.defvjp(_forward, _backward)
