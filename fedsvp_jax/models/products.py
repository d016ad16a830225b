"""Matrix products whose gradients are written out, and the borders of images."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fedsvp_jax.core.structs import Array

Pair = tuple[int, int]
Pads = tuple[Pair, Pair]  # zeros around height and width


def border(kernel: Array) -> Pads:
    """Half the kernel's height and width, with which a stride of 1 keeps the image's.

    An even side has its larger half below and on the right.
    """
    down, across = (((side - 1) // 2, side // 2) for side in kernel.shape[:2])
    return down, across


def bordered(images: Array, kernel: Array) -> Array:
    """The images with `border` of zeros along height and width."""
    return jnp.pad(images, ((0, 0), *border(kernel), (0, 0)))


def joined(squares: Array) -> Array:
    """(n, h, 2, w, 2, c) -> (n, 2 h, 2 w, c): the image of squares of 2x2 pixels."""
    count, height, _, width, _, channels = squares.shape
    return squares.reshape(count, 2 * height, 2 * width, channels)


def with_gradients(
    function: Callable[..., Array], gradients: Callable[..., Any]
) -> Callable[..., Array]:
    """The function with gradients of its own.

    Args:
      function: of arrays.
      gradients: (the function's arguments, gradient by its result) -> the gradient by
        each argument.
    """
    custom = jax.custom_vjp(function)
    custom.defvjp(
        lambda *arguments: (function(*arguments), arguments),
        lambda arguments, gradient: gradients(*arguments, gradient),
    )
    return custom


def weight_gradient(rows: Array, gradient: Array) -> Array:
    """(..., k), (..., out) -> (k, out), summed over all pixels of all images.

    It is one contraction of the leading axes of two matrices. A contraction over
    several axes would make XLA:CPU write a transposed copy of `rows` first.
    """
    matrix, other = (x.reshape(-1, x.shape[-1]) for x in (rows, gradient))
    return jnp.tensordot(matrix, other, (0, 0))


def make_product(
    gradient_by_matrix: Callable[[Array, Array], Array],
) -> Callable[..., Array]:
    """(batch, height, width, k) @ (k, out), whose gradient by the matrix is given.

    Args:
      gradient_by_matrix: of the rows and the gradient by the result.
    """
    return with_gradients(
        partial(jnp.tensordot, axes=1),
        lambda rows, matrix, gradient: (
            jnp.tensordot(gradient, matrix.T, axes=1),
            gradient_by_matrix(rows, gradient),
        ),
    )


product = make_product(weight_gradient)


def _matmul_gradients(x: Array, kernel: Array, gradient: Array) -> tuple[Array, Array]:
    """The gradient of the weights is made to depend on the gradient of the input.

    Both products that read W are then done before an optimiser overwrites it; otherwise
    XLA copies W in every step of a training loop.
    """
    x_gradient = gradient @ kernel
    # XLA removes an optimization_barrier before it places copies, so this must be a
    # dependence of the numbers.
    tie = jnp.zeros((), gradient.dtype) * x_gradient[:1, :1]
    return x_gradient, (gradient + tie).T @ x


# x W^T for x (batch, in) and W (out, in); this layout, PyTorch's, is the faster.
matmul = with_gradients(lambda x, kernel: x @ kernel.T, _matmul_gradients)
