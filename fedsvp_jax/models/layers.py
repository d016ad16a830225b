"""Layers that stay fast when every client carries its own weights.

A convolution whose weights differ by client becomes a grouped convolution under
`jax.vmap`, and XLA:CPU runs any convolution inside a loop about 20 times slower
than outside one. Both become ordinary matrix products here.
"""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

from fedsvp_jax.structs import Array

ConvBackend: TypeAlias = Literal["patches", "lax"]
Padding: TypeAlias = str | Sequence[tuple[int, int]]

_DIMENSIONS = ("NHWC", "HWIO", "NHWC")


def default_conv_backend() -> ConvBackend:
    """`patches` on a CPU (measured), `lax` elsewhere (on a GPU not measured yet)."""
    return "patches" if jax.default_backend() == "cpu" else "lax"


def conv2d(
    x: Array,
    kernel: Array,
    *,
    strides: tuple[int, int] = (1, 1),
    padding: Padding = "SAME",
    backend: ConvBackend | None = None,
) -> Array:
    """Cross-correlation y[b,i,j,o] = sum_{u,v,c} x[b, s i + u, s j + v, c] k[u,v,c,o].

    Args:
      x: (batch, height, width, in) float.
      kernel: (kernel_height, kernel_width, in, out) of the same dtype.
      strides: steps (down, across).
      padding: "SAME", "VALID" or ((top, bottom), (left, right)) zeros, >= 0.
      backend: "patches" gathers the windows and multiplies once by the kernel as a
        (kernel_height * kernel_width * in, out) matrix; "lax" is
        `lax.conv_general_dilated`; None takes `default_conv_backend()`.

    Returns:
      (batch, out_height, out_width, out).

    Raises:
      ValueError: if the channels do not match or the backend is unknown.
    """
    if x.shape[-1] != kernel.shape[2]:
        raise ValueError(
            f"kernel takes {kernel.shape[2]} input channels, x has {x.shape[-1]}"
        )
    backend = default_conv_backend() if backend is None else backend
    if backend not in ("patches", "lax"):
        raise ValueError(f"conv_backend must be 'patches' or 'lax', got {backend!r}")
    if isinstance(padding, str):
        pads = lax.padtype_to_pads(x.shape[1:3], kernel.shape[:2], strides, padding)
    else:
        pads = list(padding)
    if backend == "lax":
        return lax.conv_general_dilated(
            x, kernel, strides, pads, dimension_numbers=_DIMENSIONS
        )
    padded = jnp.pad(x, ((0, 0), *pads, (0, 0)))
    windows = _windows(padded, kernel.shape[:2], strides)
    return lax.dot_general(
        windows,
        kernel.reshape(-1, kernel.shape[3]),
        (((3,), (0,)), ((), ())),
    )


def _windows(
    padded: Array, kernel_size: tuple[int, ...], strides: tuple[int, int]
) -> Array:
    """(batch, H, W, in) -> (batch, out_H, out_W, kernel_H * kernel_W * in)."""
    batch, height, width, channels = padded.shape
    down = (height - kernel_size[0]) // strides[0] + 1
    across = (width - kernel_size[1]) // strides[1] + 1
    return jnp.concatenate(
        [
            lax.slice(
                padded,
                (0, u, v, 0),
                (
                    batch,
                    u + (down - 1) * strides[0] + 1,
                    v + (across - 1) * strides[1] + 1,
                    channels,
                ),
                (1, *strides, 1),
            )
            for u in range(kernel_size[0])
            for v in range(kernel_size[1])
        ],
        axis=-1,
    )


def _quarters(x: Array) -> list[Array]:
    """The four corners of every 2x2 window, each (batch, H // 2, W // 2, C)."""
    height, width = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    return [x[:, u:height:2, v:width:2] for u in (0, 1) for v in (0, 1)]


@jax.custom_vjp
def max_pool_2x2(x: Array) -> Array:
    """The largest of every 2x2 window, stride 2; an odd last row or column is cut.

    The gradient goes to one element, the first largest in row-major order, as in
    `lax.reduce_window` and PyTorch.

    Args:
      x: (batch, height, width, channels).

    Returns:
      (batch, height // 2, width // 2, channels).
    """
    a, b, c, d = _quarters(x)
    return jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))


def _max_pool_forward(x: Array) -> tuple[Array, tuple[Array, Array]]:
    pooled = max_pool_2x2(x)
    return pooled, (x, pooled)


def _max_pool_backward(
    residuals: tuple[Array, Array], gradient: Array
) -> tuple[Array]:
    x, pooled = residuals
    batch, height, width, channels = x.shape
    zero = jnp.zeros_like(gradient)
    free = jnp.ones(pooled.shape, bool)
    parts = []
    for corner in _quarters(x):
        hit = free & (corner == pooled)
        free = free & ~hit
        parts.append(jnp.where(hit, gradient, zero))
    rows = [jnp.stack(parts[i : i + 2], axis=3) for i in (0, 2)]
    full = jnp.stack(rows, axis=2).reshape(
        batch, height // 2 * 2, width // 2 * 2, channels
    )
    return (jnp.pad(full, ((0, 0), (0, height % 2), (0, width % 2), (0, 0))),)


max_pool_2x2.defvjp(_max_pool_forward, _max_pool_backward)


def uniform_fan_in(key: Array, shape: Sequence[int], fan_in: int) -> Array:
    """PyTorch's default: U(-b, b), b = 1 / sqrt(fan_in), kernels and biases alike."""
    bound = 1.0 / math.sqrt(fan_in)
    return jax.random.uniform(key, shape, jnp.float32, -bound, bound)


class Dense(nn.Module):
    """y = x W + b, weights U(+-1 / sqrt(in)) (PyTorch's default)."""

    features: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        fan_in = x.shape[-1]
        kernel = self.param(
            "kernel", uniform_fan_in, (fan_in, self.features), fan_in
        )
        bias = self.param("bias", uniform_fan_in, (self.features,), fan_in)
        return x @ kernel + bias[None]


class Conv(nn.Module):
    """A convolution without bias, weights U(+-1 / sqrt(fan_in))."""

    features: int
    kernel_size: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: Padding = "SAME"
    backend: ConvBackend | None = None

    @nn.compact
    def __call__(self, x: Array) -> Array:
        shape = (*self.kernel_size, x.shape[-1], self.features)
        kernel = self.param("kernel", uniform_fan_in, shape, math.prod(shape[:3]))
        return conv2d(
            x,
            kernel,
            strides=self.strides,
            padding=self.padding,
            backend=self.backend,
        )


class ConvReluPool(nn.Module):
    """max_pool_2x2(relu(conv(x) + b)), written as relu(max_pool_2x2(conv(x)) + b).

    Adding a bias and ReLU are monotone, so the values are the same bits and the
    gradient reaches the same element, on a quarter of the elements.
    """

    features: int
    kernel_size: tuple[int, int]
    backend: ConvBackend | None = None

    @nn.compact
    def __call__(self, x: Array) -> Array:
        fan_in = math.prod(self.kernel_size) * x.shape[-1]
        pooled = max_pool_2x2(
            Conv(self.features, self.kernel_size, backend=self.backend)(x)
        )
        bias = self.param("bias", uniform_fan_in, (self.features,), fan_in)
        return nn.relu(pooled + bias[None, None, None])
