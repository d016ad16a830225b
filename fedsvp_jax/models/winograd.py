"""Winograd's convolutions F(2x2, 3x3) and F(2x2, 5x5).

For 4 pixels they take 16 products in place of 36, and 36 in place of 100. Two
neighbouring results y of a filter g of r numbers come from r + 1 neighbouring numbers d
(Lavin and Gray 2016, arXiv 1509.09308, section 4.1), with * element by element:

    y = A [(G g) * (B d)]

Along height and width, and summed over the channels c of the image,

    Y[o] = A (sum_c (G g[c,o] G') * (B d[c] B')) A'

where ' transposes. Each of the bracket's elements is one matrix product, (tiles, in)
@ (in, out), with a tile for every 2x2 pixels of the result. The sums have another order
than in the plain formula, so in float32 both differ by 1e-6 of the largest result, and
with r = 5 by 3e-6, its gradient by the kernel by 2e-5.

The batch is cut into parts whose tiles stay in the processor's cache, a loop's turns.
What enters a loop is also computed once: outside one, XLA:CPU computed the norm and the
ReLU before a convolution anew for each of the products.
"""

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from fedsvp_jax.core.float32 import in_blocks
from fedsvp_jax.core.structs import Array

from .products import bordered, joined, weight_gradient, with_gradients

_Grid = list[list[Array]]  # one array for every element of a small matrix
_Arrays = TypeVar("_Arrays")


class _Matrices(NamedTuple):
    a: np.ndarray
    b: np.ndarray
    g: np.ndarray


def _matrices(points: Sequence[int], scales: Sequence[int]) -> _Matrices:
    """A, B and G for a filter of as many numbers as there are points.

    Two polynomials are multiplied by their values at the points and at infinity (Cook
    and Toom), of which B has the inverse. Its rows are whole numbers times 1/scale,
    which G takes over.
    """

    def powers(number: int) -> np.ndarray:
        finite = np.vander(points, number, increasing=True)
        return np.vstack([finite, np.eye(number)[-1]])

    inverse = np.linalg.inv(powers(len(scales))).T
    column = np.reshape(scales, (-1, 1))
    return _Matrices(
        powers(2).T, np.round(inverse * column), powers(len(points)) / column
    )


_OF_SIDE = {
    3: _matrices((0, 1, -1), (1, 2, 2, 1)),
    5: _matrices((0, 1, -1, 2, -2), (4, 6, 6, 24, 24, 1)),
}
_LEAST_CHANNELS = {3: 64, 5: 32}
_TILE_BYTES = 7_000_000  # of a part of the batch: what its products read, at most
_LEAST_TILES = 128


def pays(x: Array, kernel: Array) -> bool:
    """Whether `conv2d` can convolve these, and was faster than other products.

    With few tiles the transforms of the kernel cost more than is saved, with few
    channels those of the image. It was timed on CPU cores with AVX-512 only, in
    float32; in bfloat16 the other order of the sums would be felt.
    """
    batch, height, width, _ = x.shape
    side, wide, *channels = kernel.shape
    return (
        x.dtype == jnp.float32
        and side == wide
        and height % 2 == width % 2 == 0
        and min(channels) >= _LEAST_CHANNELS.get(side, math.inf)
        and batch * height * width // 4 >= _LEAST_TILES
    )


def _convolved(x: Array, kernel: Array) -> Array:
    matrices, weights = _OF_SIDE[len(kernel)], _weights(kernel)

    def convolve(part: tuple[Array, Array]) -> Array:
        turn, image = part
        tiles = _tiles(matrices.b, bordered(image, kernel), turn)
        products = jax.tree.map(partial(jnp.tensordot, axes=1), tiles, weights)
        grid = _transform(matrices.a, products)  # the four pixels of every tile
        return joined(jnp.stack([jnp.stack(row, axis=3) for row in grid], axis=2))

    parts = _in_parts(x, kernel)
    y = lax.map(convolve, (jnp.arange(len(parts)), parts))
    return lax.collapse(y, 0, 2)[: len(x)]


def _gradients(x: Array, kernel: Array, gradient: Array) -> tuple[Array, Array]:
    """The transposes of the forward pass's steps, in the opposite order."""
    matrices, weights = _OF_SIDE[len(kernel)], _weights(kernel)

    def add_part(total: _Grid, part: tuple[Array, Array, Array]) -> tuple[_Grid, Array]:
        turn, image, of_y = part
        of_products = _tiles(matrices.a.T, of_y, turn)
        tiles = partial(_tiles, matrices.b, bordered(image, kernel), turn)
        of_weights = _weight_gradients(tiles, of_products, turn)
        of_tiles = jax.tree.map(
            lambda of_product, weight: jnp.tensordot(of_product, weight.T, axes=1),
            of_products,
            weights,
        )
        # The transpose of cutting out the tiles B d B', with their border of zeros: a
        # pixel gets the sum over its own tile and those beside it. As in `_tiles`, the
        # first axis is done by itself.
        along = partial(_pixels, matrices.b.T)
        columns = _by_itself(
            lambda: [along(column, 1) for column in zip(*of_tiles, strict=True)], turn
        )
        of_image = along(columns, 2)
        return optax.tree.add(total, of_weights), of_image

    parts = _in_parts(x, kernel)
    of_weights, of_x = lax.scan(
        add_part,
        optax.tree.zeros_like(weights),
        (jnp.arange(len(parts)), parts, _in_parts(gradient, kernel)),
    )
    of_kernel = _transform(matrices.g.T, of_weights)
    of_x = lax.collapse(of_x, 0, 2)[: len(x)]
    return of_x, jnp.stack([jnp.stack(row) for row in of_kernel])


# `convolution.conv2d` of even sides and strides of one, with a kernel of 3x3 or 5x5.
conv2d = with_gradients(_convolved, _gradients)


def _in_parts(images: Array, kernel: Array) -> Array:
    """(batch, ...) -> (parts, images, ...), filled up with images of zeros.

    It takes the number of parts with the fewest such images among those that are large
    enough and less than twice as large.
    """
    batch, height, width, _ = images.shape
    tile_bytes = (len(kernel) + 1) ** 2 // 4 * height * width * max(kernel.shape[2:])
    tile_bytes *= images.dtype.itemsize
    smallest = min(-(-batch * tile_bytes // _TILE_BYTES), batch)
    parts = min(range(smallest, 2 * smallest), key=lambda parts: -batch % parts)
    return in_blocks(images, parts, -(-batch // parts))


def _transform(matrix: np.ndarray, grid: Sequence[Sequence[Array]]) -> _Grid:
    """M P M' for a matrix P of arrays."""
    columns = [_combined(matrix, column) for column in zip(*grid, strict=True)]
    return [_combined(matrix, row) for row in zip(*columns, strict=True)]


def _combined(matrix: np.ndarray, parts: Sequence[Array]) -> list[Array]:
    """out[i] = sum_j matrix[i][j] parts[j], without the zeros of the matrix.

    Products by 1 and -1, which XLA would have to find, are left out too.
    """
    return [
        reduce(
            operator.add,
            [
                part if factor == 1 else -part if factor == -1 else factor * part
                for factor, part in zip(row, parts, strict=True)
                if factor
            ],
        )
        for row in matrix.tolist()
    ]


def _weights(kernel: Array) -> _Grid:
    """(r, r, in, out) -> G g G', r + 1 by r + 1 of (in, out)."""
    return _transform(_OF_SIDE[len(kernel)].g, [list(row) for row in kernel])


def _tiles(matrix: np.ndarray, x: Array, turn: Array) -> _Grid:
    """M P M' for the pixels P of every tile, each (batch, height / 2, width / 2, in).

    The first axis is done by itself: the second then has r + 1 programs, not (r + 1)^2.
    """
    rows = _by_itself(partial(_along, matrix, x, 1), turn)
    return [_along(matrix, row, 2) for row in rows]


def _along(matrix: np.ndarray, x: Array, axis: int) -> list[Array]:
    """M p for the pixels p of every tile along an axis; tiles begin at every second."""
    size = matrix.shape[1]
    last = x.shape[axis] - size + 1
    pixels = [lax.slice_in_dim(x, v, v + last, 2, axis) for v in range(size)]
    return _combined(matrix, pixels)


def _by_itself(function: Callable[[], _Arrays], turn: Array) -> _Arrays:
    """function(), written to memory before anything else reads it.

    XLA:CPU drops an `optimization_barrier` before it joins operations, but joins none
    with a branch's. It does not know that this branch is taken in every turn, 0, 1, ...
    """
    return lax.cond(
        turn >= 0,
        function,
        lambda: optax.tree.zeros_like(jax.eval_shape(function)),
    )


def _weight_gradients(
    tiles: Callable[[], _Grid], of_products: _Grid, turn: Array
) -> _Grid:
    """The sums over all tiles of B d B', (b, h, w, in), times a (b, h, w, out).

    Contracted by three axes, a product first makes XLA:CPU write a transposed copy of
    its tiles, and then runs at up to three times the rate. With fewer tiles than
    channels the copies cost more than that.
    """
    if of_products[0][0].size <= of_products[0][0].shape[-1] ** 2:
        return jax.tree.map(weight_gradient, tiles(), of_products)
    contracted = partial(jnp.tensordot, axes=((0, 1, 2), (0, 1, 2)))
    return jax.tree.map(contracted, _by_itself(tiles, turn), of_products)


def _pixels(matrix: np.ndarray, of_tiles: Sequence[Array], axis: int) -> Array:
    """The transpose of `_along(B, bordered, axis)`: pixels in place of tiles."""
    parts, before = _combined(matrix, of_tiles), len(matrix) // 2 - 1
    shifted = []
    for place, part in enumerate(parts):
        by, edges = (place - before) // 2, [(0, 0, 0)] * part.ndim
        edges[axis] = (by, -by, 0)
        shifted.append(lax.pad(part, jnp.zeros((), part.dtype), edges))
    odd = before % 2
    pair = [reduce(operator.add, shifted[start::2]) for start in (odd, 1 - odd)]
    return lax.collapse(jnp.stack(pair, axis=axis + 1), axis, axis + 2)
