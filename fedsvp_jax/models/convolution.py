"""Convolution on a CPU, as one ordinary matrix product.

Under `jax.vmap`, a convolution whose weights differ between clients becomes a grouped
convolution, and XLA:CPU runs any convolution inside a loop about 20 times slower than
outside one. A matrix product has neither problem.
"""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from fedsvp_jax.core.structs import Array

from . import winograd
from .products import Pair, border, product, weight_gradient


def conv2d(x: Array, kernel: Array, stride: int) -> Array:
    """`kernels.conv2d` by matrix products.

    At a stride of 1 they are Winograd's where these pay (`winograd.pays`), else by
    windows or by rows, whichever needs less memory (by rows where equal). Other strides
    go by windows.
    """
    height, width, channels, features = kernel.shape
    if stride == 1:
        if winograd.pays(x, kernel):
            return winograd.conv2d(x, kernel)
        by_rows = width * channels + height * features
        if by_rows <= height * width * channels:
            return _conv_by_rows(x, kernel)
    return _conv_by_windows(x, kernel, stride)


def _conv_by_windows(x: Array, kernel: Array, stride: int) -> Array:
    """Makes every window a row of kernel_height * kernel_width * in numbers.

    They are gathered across first and down second: height + width slices in place of
    height * width, each of which XLA would compute anew from what x is made of.
    """
    windows = _pad(x, *border(kernel))
    for axis in (2, 1):
        side = kernel.shape[axis - 1]
        count = windows.shape[axis] - side + 1
        shifted = [
            lax.slice_in_dim(windows, at, at + count, stride, axis)
            for at in range(side)
        ]
        windows = jnp.concatenate(shifted, axis=3)
    return product(windows, kernel.reshape(-1, kernel.shape[-1]))


def _conv_by_rows(x: Array, kernel: Array) -> Array:
    """Gathers windows along the width only, and adds the kernel's rows afterwards.

        z[b,h,j,u,o] = sum_{v,c} x[b,h,j+v,c] k[u,v,c,o]
        y[b,i,j,o] = sum_u z[b,i+u,j,u,o]

    Both gradients are products with one shifted copy of dy, (batch, height,
    out_width, kernel_height * out), so the temporaries hold kernel_width * in +
    kernel_height * out numbers a pixel instead of kernel_height * kernel_width * in.
    """
    tall, wide, channels, features = kernel.shape
    (top, bottom), (left, right) = border(kernel)
    height = x.shape[1]

    def forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
        padded = _pad(x, (0, 0), (left, right))
        out_width = padded.shape[2] - wide + 1
        rows = jnp.concatenate(
            [padded[:, :, v : v + out_width] for v in range(wide)], axis=3
        )
        partial_sums = jnp.tensordot(rows, _rows_matrix(kernel), axes=1)
        shifts = [u - top for u in range(tall)]
        return _overlap_sum(partial_sums, shifts, length=height, axis=1), (rows, kernel)

    def backward(
        residuals: tuple[Array, Array], gradient: Array
    ) -> tuple[Array, Array]:
        rows, kernel = residuals
        padded = _pad(gradient, (bottom, top), (0, 0))
        shifted = jnp.concatenate(
            [padded[:, tall - 1 - u : tall - 1 - u + height] for u in range(tall)],
            axis=3,
        )
        kernel_gradient = weight_gradient(rows, shifted)
        kernel_gradient = kernel_gradient.reshape(wide, channels, tall, features)
        partial_sums = jnp.tensordot(shifted, _rows_matrix(kernel).T, axes=1)
        shifts = [left - v for v in range(wide)]
        x_gradient = _overlap_sum(partial_sums, shifts, length=rows.shape[2], axis=2)
        return x_gradient, kernel_gradient.transpose(2, 0, 1, 3)

    convolve = jax.custom_vjp(lambda x, kernel: forward(x, kernel)[0])
    convolve.defvjp(forward, backward)
    return convolve(x, kernel)


def _rows_matrix(kernel: Array) -> Array:
    """(tall, wide, in, out) -> (wide * in, tall * out)."""
    tall, wide, channels, features = kernel.shape
    return kernel.transpose(1, 2, 0, 3).reshape(wide * channels, tall * features)


def _overlap_sum(
    partial_sums: Array, shifts: Sequence[int], *, length: int, axis: int
) -> Array:
    """out[i] = sum_p parts[p][i + shifts[p]] along `axis`, out of range counting 0.

    The parts stand side by side in the last axis of `partial_sums`, of four.
    The result is cut where a part starts or ends, so that each piece is a plain sum of
    slices. A sum of padded arrays takes XLA:CPU three times as long.
    """
    by_part = partial_sums.reshape(*partial_sums.shape[:3], len(shifts), -1)
    parts = jnp.unstack(by_part, axis=3)
    size = by_part.shape[axis]
    ends = {0, length}
    for shift in shifts:
        ends |= {min(max(end, 0), length) for end in (-shift, size - shift)}
    cuts = sorted(ends)
    pieces = []
    for start, stop in itertools.pairwise(cuts):
        terms = [
            lax.slice_in_dim(part, start + shift, stop + shift, axis=axis)
            for part, shift in zip(parts, shifts, strict=True)
            if start + shift >= 0 and stop + shift <= size
        ]
        pieces.append(sum(terms[1:], start=terms[0]))
    return jnp.concatenate(pieces, axis=axis)


def _pad(x: Array, down: Pair, across: Pair) -> Array:
    """Adds zeros around height and width; a negative count removes pixels."""
    edges = ((0, 0, 0), (*down, 0), (*across, 0), (0, 0, 0))
    return lax.pad(x, jnp.zeros((), x.dtype), edges)
