"""The products of networks: one face, with one set of kernels for each kind of device.

"cuda" and "tpu" are XLA's own operations, but for the pool of a GPU: there XLA's own
gradient takes three kernels and scatters. "cpu" are matrix products that XLA:CPU runs
fast (`convolution`, `pooling`, `products`). All compute the same up to rounding;
`tests/models/test_registry.py` holds them together.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import flax.linen as nn
from jax import lax

from fedsvp_jax.models import convolution, pooling, products
from fedsvp_jax.structs import Array

Kernels: TypeAlias = Literal["cpu", "cuda", "tpu"]
Padding: TypeAlias = str | Sequence[tuple[int, int]]


def check_kernels(kernels: str) -> None:
    """Raises a ValueError for the name of no set of kernels."""
    if kernels not in get_args(Kernels):
        raise ValueError(f"kernels must be 'cpu', 'cuda' or 'tpu', got {kernels!r}")


def conv2d(
    x: Array,
    kernel: Array,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: Padding = "SAME",
    kernels: Kernels,
) -> Array:
    """Cross-correlation y[b,i,j,o] = sum_{u,v,c} x[b, s i + u, s j + v, c] k[u,v,c,o].

    Args:
      x: (batch, height, width, in) float.
      kernel: (kernel_height, kernel_width, in, out) of the same dtype.
      strides: steps (down, across).
      padding: "SAME", "VALID" or ((top, bottom), (left, right)) zeros, >= 0.
      kernels: whose.

    Returns:
      (batch, out_height, out_width, out).

    Raises:
      ValueError: the channels do not match, or there are no such kernels.
    """
    check_kernels(kernels)
    if x.shape[-1] != kernel.shape[2]:
        raise ValueError(
            f"kernel takes {kernel.shape[2]} input channels, x has {x.shape[-1]}"
        )
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(x.shape[1:3], kernel.shape[:2], strides, padding)
    if kernels == "cpu":
        (top, bottom), (left, right) = padding
        return convolution.conv2d(x, kernel, strides, ((top, bottom), (left, right)))
    return lax.conv_general_dilated(
        x, kernel, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def max_pool_2x2(x: Array, *, kernels: Kernels) -> Array:
    """The maximum of every 2x2 window, stride 2; an odd last row or column is dropped.

    The gradient goes to one element of each window, the first of its maxima in
    row-major order.

    Args:
      x: (batch, height, width, channels).
      kernels: whose.

    Returns:
      (batch, height // 2, width // 2, channels).
    """
    if kernels != "tpu":
        return pooling.max_pool_2x2(x)
    pooled: Array = nn.max_pool(x, (2, 2), (2, 2))
    return pooled


def matmul(x: Array, kernel: Array, *, kernels: Kernels) -> Array:
    """x W^T for x (batch, in) and W (out, in)."""
    return products.matmul(x, kernel) if kernels == "cpu" else x @ kernel.T
