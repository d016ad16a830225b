"""Convolution on a GPU, whose gradient by the kernel is cuDNN's own under `jax.vmap`.

JAX writes the gradients by many clients' kernels as one convolution with whole images
for windows, and XLA:GPU then computes it as a forward one (jax-ml/jax issue 13800).
Here groups of the batch stand in its place, which XLA:GPU turns into cuDNN's backward
filter. Few channels make narrow groups, so that products of windows are less work.
"""

import itertools
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from fedsvp_jax.core.structs import Array

_Pair: TypeAlias = tuple[int, int]
_Pads: TypeAlias = tuple[_Pair, _Pair]
_LEAST_CHANNELS = 4


def conv2d(x: Array, kernel: Array, strides: _Pair, pads: _Pads) -> Array:
    """`kernels.conv2d` for a GPU."""
    height, width, channels, _ = kernel.shape
    if channels < _LEAST_CHANNELS:
        rows = _windows(strides, pads, (height, width), x)
        return _product(rows, kernel.reshape(-1, kernel.shape[-1]))
    return _conv(strides, pads, x, kernel)


def _plain(
    strides: _Pair, pads: _Pads, x: Array, kernel: Array, groups: int = 1
) -> Array:
    return lax.conv_general_dilated(
        x,
        kernel,
        strides,
        pads,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _conv(strides: _Pair, pads: _Pads, x: Array, kernel: Array) -> Array:
    return _plain(strides, pads, x, kernel)


def _conv_forward(
    strides: _Pair, pads: _Pads, x: Array, kernel: Array
) -> tuple[Array, tuple[Array, Array]]:
    return _plain(strides, pads, x, kernel), (x, kernel)


def _conv_backward(
    strides: _Pair, pads: _Pads, residuals: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    x, kernel = residuals
    return (
        _image_gradient(strides, pads, x, kernel, gradient),
        _filter_gradient(strides, pads, kernel.shape[:2], x, gradient),
    )


_conv.defvjp(_conv_forward, _conv_backward)


def _image_gradient(
    strides: _Pair, pads: _Pads, x: Array, kernel: Array, gradient: Array
) -> Array:
    by_image = jax.linear_transpose(lambda x: _plain(strides, pads, x, kernel), x)
    of_image: Array = by_image(gradient)[0]
    return of_image


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _filter_gradient(
    strides: _Pair, pads: _Pads, window: _Pair, x: Array, gradient: Array
) -> Array:
    """(kernel_height, kernel_width, in, out): linear in the image and in dy."""

    def of_groups(x: Array, gradient: Array, groups: int) -> Array:
        shape = *window, x.shape[-1] // groups, gradient.shape[-1]
        by_kernel = jax.linear_transpose(
            lambda kernel: _plain(strides, pads, x, kernel, groups),
            jax.ShapeDtypeStruct(shape, x.dtype),
        )
        of_kernel: Array = by_kernel(gradient)[0]
        return of_kernel

    @custom_vmap
    def of_one(x: Array, gradient: Array) -> Array:
        return of_groups(x, gradient, 1)

    @of_one.def_vmap
    def of_many(size: int, batched: list[bool], *both: Array) -> tuple[Array, bool]:
        def as_groups(leaf: Array, differs: bool) -> Array:
            if not differs:
                leaf = jnp.broadcast_to(leaf, (size, *leaf.shape))
            channels_last = jnp.moveaxis(leaf, 0, -2)
            return channels_last.reshape(*leaf.shape[1:-1], size * leaf.shape[-1])

        x, gradient = map(as_groups, both, batched)
        flat = of_groups(x, gradient, size)
        by_lane = flat.reshape(*flat.shape[:-1], size, -1)
        return jnp.moveaxis(by_lane, 3, 0), True

    of_kernel: Array = of_one(x, gradient)
    return of_kernel


def _filter_forward(
    strides: _Pair, pads: _Pads, window: _Pair, x: Array, gradient: Array
) -> tuple[Array, tuple[Array, Array]]:
    return _filter_gradient(strides, pads, window, x, gradient), (x, gradient)


def _filter_backward(
    strides: _Pair,
    pads: _Pads,
    window: _Pair,
    residuals: tuple[Array, Array],
    kernel: Array,
) -> tuple[Array, Array]:
    """By both factors; `kernel` is what the gradient by the kernel is weighed with."""
    del window
    x, gradient = residuals
    return (
        _image_gradient(strides, pads, x, kernel, gradient),
        _plain(strides, pads, x, kernel),
    )


_filter_gradient.defvjp(_filter_forward, _filter_backward)


def _windows(strides: _Pair, pads: _Pads, window: _Pair, x: Array) -> Array:
    """(batch, out_height, out_width, kernel_height * kernel_width * in)."""
    padded = jnp.pad(x, ((0, 0), *pads, (0, 0)))
    lasts = [n - k + 1 for n, k in zip(padded.shape[1:3], window, strict=True)]
    return jnp.concatenate(
        [
            padded[:, u : u + lasts[0] : strides[0], v : v + lasts[1] : strides[1]]
            for u, v in itertools.product(*map(range, window))
        ],
        axis=-1,
    )


@jax.custom_vjp
def _product(rows: Array, matrix: Array) -> Array:
    """`products.product`, whose gradient by the matrix is a sum over the images.

    A client's one product of all pixels would leave most of a GPU idle. The windows
    are written once.
    """
    return _product_forward(rows, matrix)[0]


def _product_forward(rows: Array, matrix: Array) -> tuple[Array, tuple[Array, Array]]:
    rows = lax.optimization_barrier(rows)
    return jnp.tensordot(rows, matrix, axes=1), (rows, matrix)


def _product_backward(
    residuals: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    rows, matrix = residuals
    of_rows = jnp.tensordot(gradient, matrix.T, axes=1)
    images = (x.reshape(x.shape[0], -1, x.shape[-1]) for x in (rows, gradient))
    return of_rows, jnp.sum(jnp.einsum("bpk,bpo->bko", *images), axis=0)


_product.defvjp(_product_forward, _product_backward)
