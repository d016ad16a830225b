"""Convolution on a GPU, whose gradient by the kernel is cuDNN's own under `jax.vmap`.

JAX writes the gradients by many clients' kernels as one convolution with whole images
for windows, and XLA:GPU then computes it as a forward one (jax-ml/jax issue 13800).
Here groups of the batch stand in its place, which XLA:GPU turns into cuDNN's backward
filter. Few channels make narrow groups, so that products of windows are less work.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from numpy.lib.stride_tricks import sliding_window_view

from fedsvp_jax.core.structs import Array

from .products import border, bordered, make_product, with_gradients

_LEAST_CHANNELS = 4


def plain_conv2d(x: Array, kernel: Array, stride: int, groups: int = 1) -> Array:
    """`kernels.conv2d` as XLA's own operation, for a TPU."""
    return lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        border(kernel),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def conv2d(x: Array, kernel: Array, stride: int) -> Array:
    """`kernels.conv2d` for a GPU."""
    if kernel.shape[2] < _LEAST_CHANNELS:
        # The windows are written once.
        rows = lax.optimization_barrier(_windows(x, kernel, stride))
        return _product(rows, kernel.reshape(-1, kernel.shape[-1]))

    plain = partial(plain_conv2d, stride=stride)

    def image_gradient(x: Array, kernel: Array, gradient: Array) -> Array:
        by_image = jax.linear_transpose(lambda x: plain(x, kernel), x)
        return by_image(gradient)[0]

    def of_groups(groups: int, x: Array, gradient: Array) -> Array:
        shape = *kernel.shape[:2], x.shape[-1] // groups, gradient.shape[-1]
        by_kernel = jax.linear_transpose(
            lambda kernel: plain(x, kernel, groups=groups),
            jax.ShapeDtypeStruct(shape, x.dtype),
        )
        return by_kernel(gradient)[0]

    of_one = custom_vmap(partial(of_groups, 1))

    @of_one.def_vmap
    def of_many(size: int, batched: list[bool], *both: Array) -> tuple[Array, bool]:
        axes = [0 if differs else None for differs in batched]
        channels = jax.vmap(lambda *both: both, axes, -2, axis_size=size)(*both)
        flat = of_groups(size, *(lax.collapse(leaf, -2) for leaf in channels))
        by_lane = flat.reshape(*flat.shape[:-1], size, -1)
        return jnp.moveaxis(by_lane, 3, 0), True

    # Linear in the image and in dy; `weight` is what the gradient by the kernel, which
    # it returns, is weighed with.
    filter_gradient = with_gradients(
        of_one,
        lambda x, gradient, weight: (
            image_gradient(x, weight, gradient),
            plain(x, weight),
        ),
    )
    convolve = with_gradients(
        plain,
        lambda x, kernel, gradient: (
            image_gradient(x, kernel, gradient),
            filter_gradient(x, gradient),
        ),
    )
    return convolve(x, kernel)


def _windows(x: Array, kernel: Array, stride: int) -> Array:
    """(batch, out_height, out_width, kernel_height * kernel_width * in).

    They are gathered from the bordered images, which are written first. A concatenation
    of slices, whose numbers a GPU writes far apart, takes 18 times as long.
    """
    images = lax.optimization_barrier(bordered(x, kernel))
    pixels = lax.collapse(images, 1, 3)
    places = np.arange(pixels.shape[1]).reshape(-1, images.shape[2])
    windows = sliding_window_view(places, kernel.shape[:2])[::stride, ::stride]
    gathered = jnp.take(pixels, windows.reshape(*windows.shape[:2], -1), axis=1)
    return lax.collapse(gathered, 3)


def _weight_gradient(rows: Array, gradient: Array) -> Array:
    """`products.weight_gradient` as a sum over the images.

    A client's one product of all pixels would leave most of a GPU idle.
    """
    images = (lax.collapse(x, 1, 3) for x in (rows, gradient))
    return jnp.sum(jnp.einsum("bpk,bpo->bko", *images), axis=0)


_product = make_product(_weight_gradient)
