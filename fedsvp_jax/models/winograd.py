"""Winograd's convolution F(2x2, 3x3): 16 products for 4 pixels, in place of 36.

Two neighbouring results y of a filter g of three come from four neighbouring numbers d
(Lavin and Gray 2016, arXiv 1509.09308, section 4.1), with * element by element:

    y = A [(G g) * (B d)]

Along height and width, and summed over the channels c of the image,

    Y[o] = A (sum_c (G g[c,o] G') * (B d[c] B')) A'

where ' transposes. Each of the bracket's 16 elements is one matrix product, (tiles, in)
@ (in, out), with a tile for every 2x2 pixels of the result. The sums have another order
than in the plain formula, so in float32 both differ by 1e-6 of the largest result.

The batch is cut into parts whose tiles stay in the processor's cache, a loop's turns.
What enters a loop is also computed once: outside one, XLA:CPU computed the norm and the
ReLU before a convolution anew for each of the 16 products (BUILD_NOTES.md).
"""

import operator
from collections.abc import Sequence
from functools import partial, reduce

import jax
import jax.numpy as jnp
from jax import lax

from fedsvp_jax.models.products import weight_gradient
from fedsvp_jax.structs import Array

_Matrix = tuple[tuple[float, ...], ...]
_Grid = list[list[Array]]  # one array for every element of a small matrix

_A: _Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))
_B: _Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
_G: _Matrix = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))

_TILE_BYTES = 7_000_000  # of a part of the batch: what 16 products read, at most
_LEAST_CHANNELS = 64
_LEAST_TILES = 128


def pays(x: Array, kernel: Array) -> bool:
    """Whether `conv_3x3` can convolve these, and was faster than other products.

    With few tiles the transforms of the kernel cost more than is saved, with few
    channels those of the image. It was timed on CPU cores with AVX-512 only, in
    float32; in bfloat16 the other order of the sums would be felt.
    """
    batch, height, width, _ = x.shape
    return (
        jax.default_backend() == "cpu"
        and x.dtype == jnp.float32
        and kernel.shape[:2] == (3, 3)
        and height % 2 == width % 2 == 0
        and min(kernel.shape[2:]) >= _LEAST_CHANNELS
        and batch * height * width // 4 >= _LEAST_TILES
    )


@jax.custom_vjp
def conv_3x3(x: Array, kernel: Array) -> Array:
    """`convolution.conv2d` with strides of one and a border of one zero.

    Args:
      x: (batch, height, width, in) float, height and width even.
      kernel: (3, 3, in, out) of the same dtype.

    Returns:
      (batch, height, width, out).
    """
    return _forward(x, kernel)[0]


def _forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    weights = _transform(_G, _elements(kernel))

    def convolve(part: Array) -> Array:
        tiles = _transform(_B, _neighbours(part))
        products = jax.tree.map(partial(jnp.tensordot, axes=1), tiles, weights)
        return _interleaved(_transform(_A, products))

    y = lax.map(convolve, _in_parts(x, kernel))
    return _joined(y, x.shape[0]), (x, kernel)


def _backward(residuals: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    """By the transposes of the forward pass's steps, in the opposite order."""
    x, kernel = residuals
    weights = _transform(_G, _elements(kernel))

    def add_part(total: _Grid, part: tuple[Array, Array]) -> tuple[_Grid, Array]:
        image, of_y = part
        tiles = _transform(_B, _neighbours(image))
        of_products = _transform(_transposed(_A), _pixels(of_y))
        of_weights = jax.tree.map(weight_gradient, tiles, of_products)
        of_tiles = jax.tree.map(
            lambda of_product, weight: jnp.tensordot(of_product, weight.T, axes=1),
            of_products,
            weights,
        )
        of_image = _neighbours_transposed(_transform(_transposed(_B), of_tiles))
        return jax.tree.map(jnp.add, total, of_weights), of_image

    of_weights, of_x = lax.scan(
        add_part,
        jax.tree.map(jnp.zeros_like, weights),
        (_in_parts(x, kernel), _in_parts(gradient, kernel)),
    )
    of_kernel = _transform(_transposed(_G), of_weights)
    return _joined(of_x, x.shape[0]), jnp.stack([jnp.stack(row) for row in of_kernel])


conv_3x3.defvjp(_forward, _backward)


def _in_parts(images: Array, kernel: Array) -> Array:
    """(batch, ...) -> (parts, images, ...), filled up with images of zeros.

    It takes the number of parts with the fewest such images among those that are large
    enough and less than twice as large.
    """
    batch, height, width, _ = images.shape
    tile_bytes = 4 * height * width * max(kernel.shape[2:]) * images.dtype.itemsize
    least = min(-(-batch * tile_bytes // _TILE_BYTES), batch)
    parts = min(range(least, 2 * least), key=lambda parts: -batch % parts)
    filled = jnp.pad(images, ((0, -batch % parts), (0, 0), (0, 0), (0, 0)))
    return filled.reshape(parts, -1, *images.shape[1:])


def _joined(parts: Array, batch: int) -> Array:
    """The inverse of `_in_parts`."""
    return parts.reshape(-1, *parts.shape[2:])[:batch]


def _transform(matrix: _Matrix, grid: Sequence[Sequence[Array]]) -> _Grid:
    """M P M' for a matrix P of arrays."""
    columns = [_combined(matrix, column) for column in zip(*grid, strict=True)]
    return [_combined(matrix, row) for row in zip(*columns, strict=True)]


def _combined(matrix: _Matrix, parts: Sequence[Array]) -> list[Array]:
    """out[i] = sum_j matrix[i][j] parts[j], without the zeros of the matrix."""
    return [
        reduce(
            operator.add,
            [factor * part for factor, part in zip(row, parts, strict=True) if factor],
        )
        for row in matrix
    ]


def _transposed(matrix: _Matrix) -> _Matrix:
    return tuple(zip(*matrix, strict=True))


def _elements(kernel: Array) -> _Grid:
    """(3, 3, in, out) -> 3x3 of (in, out)."""
    return [[kernel[u, v] for v in range(3)] for u in range(3)]


def _neighbours(x: Array) -> _Grid:
    """The 4x4 pixels around every 2x2, each (batch, height / 2, width / 2, in)."""
    _, height, width, _ = x.shape
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return [
        [padded[:, u : u + height : 2, v : v + width : 2] for v in range(4)]
        for u in range(4)
    ]


def _neighbours_transposed(grid: _Grid) -> Array:
    """Adds what each pixel is a part of: of its own tile, and of those beside it."""

    def both(parts: Sequence[Array], axis: int) -> list[Array]:
        before, even, odd, after = parts
        return [even + _shifted(after, -1, axis), odd + _shifted(before, 1, axis)]

    columns = [both(column, 1) for column in zip(*grid, strict=True)]
    return _interleaved([both(row, 2) for row in zip(*columns, strict=True)])


def _shifted(x: Array, by: int, axis: int) -> Array:
    """out[i] = x[i + by] along `axis`, out of range 0."""
    edges = [(0, 0, 0)] * x.ndim
    edges[axis] = (-by, by, 0)
    return lax.pad(x, jnp.zeros((), x.dtype), edges)


def _pixels(x: Array) -> _Grid:
    """The 2x2 pixels of every tile, each (batch, height / 2, width / 2, channels)."""
    return [[x[:, u::2, v::2] for v in range(2)] for u in range(2)]


def _interleaved(grid: _Grid) -> Array:
    """The inverse of `_pixels`."""
    batch, height, width, channels = grid[0][0].shape
    rows = [jnp.stack(row, axis=3) for row in grid]
    return jnp.stack(rows, axis=2).reshape(batch, 2 * height, 2 * width, channels)
