"""Linen layers whose cost stays low when every client carries its own weights.

Kernels start at He's U(-b, b) with b = sqrt(6 / fan_in), and biases at 0. With plain
SGD at a learning rate of 0.1 they learn about twice as fast as from PyTorch's default,
b = sqrt(1 / fan_in). Convolutions that a normalisation follows start at PyTorch's
default (`PYTORCH_UNIFORM`): their scale does not change what the network computes, but
the published noise is relative to it.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from fedsvp_jax.models.convolution import ConvBackend, Padding, conv2d
from fedsvp_jax.models.pooling import max_pool_2x2
from fedsvp_jax.structs import Array

HE_UNIFORM = nn.initializers.variance_scaling(2.0, "fan_in", "uniform")
PYTORCH_UNIFORM = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
_HE_UNIFORM_OUT_IN = nn.initializers.variance_scaling(
    2.0, "fan_in", "uniform", in_axis=-1, out_axis=-2
)


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


class Dense(nn.Module):
    """y = x W^T + b over the last axis, with the kernel stored as (out, in)."""

    features: int
    use_bias: bool = True
    kernel_init: nn.initializers.Initializer = _HE_UNIFORM_OUT_IN

    @nn.compact
    def __call__(self, x: Array) -> Array:
        kernel = self.param(
            "kernel", self.kernel_init, (self.features, x.shape[-1]), jnp.float32
        )
        y = matmul(x.reshape(-1, x.shape[-1]), kernel)
        if self.use_bias:
            bias = self.param(
                "bias", nn.initializers.zeros, (self.features,), jnp.float32
            )
            y = y + bias[None]
        return y.reshape(*x.shape[:-1], self.features)


class Conv(nn.Module):
    """A convolution without bias."""

    features: int
    kernel_size: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: Padding = "SAME"
    backend: ConvBackend = "patches"
    kernel_init: nn.initializers.Initializer = HE_UNIFORM

    @nn.compact
    def __call__(self, x: Array) -> Array:
        shape = (*self.kernel_size, x.shape[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, jnp.float32)
        return conv2d(
            x,
            kernel,
            strides=self.strides,
            padding=self.padding,
            backend=self.backend,
        )


class ConvReluPool(nn.Module):
    """max_pool_2x2(relu(conv(x) + b)), computed as relu(max_pool_2x2(conv(x)) + b).

    Adding a bias and ReLU are monotone. Values therefore have the same bits in both
    orders, the gradient reaches the same element, and a quarter of the work is left.
    """

    features: int
    kernel_size: tuple[int, int]
    backend: ConvBackend = "patches"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        pooled = max_pool_2x2(
            Conv(self.features, self.kernel_size, backend=self.backend)(x)
        )
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return nn.relu(pooled + bias[None, None, None])
