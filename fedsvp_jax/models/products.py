"""Matrix products on a CPU, with their gradients."""

import jax
import jax.numpy as jnp
from jax import lax

from fedsvp_jax.core.structs import Array


@jax.custom_vjp
def product(rows: Array, matrix: Array) -> Array:
    """(batch, height, width, k) @ (k, out)."""
    return jnp.tensordot(rows, matrix, axes=1)


def _product_forward(rows: Array, matrix: Array) -> tuple[Array, tuple[Array, Array]]:
    return product(rows, matrix), (rows, matrix)


def _product_backward(
    residuals: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    rows, matrix = residuals
    return (
        jnp.tensordot(gradient, matrix.T, axes=1),
        weight_gradient(rows, gradient),
    )


product.defvjp(_product_forward, _product_backward)


def weight_gradient(rows: Array, gradient: Array) -> Array:
    """(..., k), (..., out) -> (k, out), summed over all pixels of all images.

    It is one contraction of the leading axes of two matrices. A contraction over
    several axes would make XLA:CPU write a transposed copy of `rows` first.
    """
    matrix, other = (x.reshape(-1, x.shape[-1]) for x in (rows, gradient))
    return lax.dot_general(matrix, other, (((0,), (0,)), ((), ())))


@jax.custom_vjp
def matmul(x: Array, kernel: Array) -> Array:
    """x W^T for x (batch, in) and W (out, in); this layout, PyTorch's, is the faster.

    The gradient of the weights is made to depend on the gradient of the input. Both
    products that read W are then done before an optimiser overwrites it; otherwise XLA
    copies W in every step of a training loop.
    """
    return x @ kernel.T


def _matmul_forward(x: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ kernel.T, (x, kernel)


def _matmul_backward(
    residuals: tuple[Array, Array], gradient: Array
) -> tuple[Array, Array]:
    x, kernel = residuals
    x_gradient = gradient @ kernel
    # XLA removes an optimization_barrier before it places copies, so this must be a
    # dependence of the numbers.
    tie = jnp.zeros((), gradient.dtype) * x_gradient[:1, :1]
    return x_gradient, (gradient + tie).T @ x


matmul.defvjp(_matmul_forward, _matmul_backward)
