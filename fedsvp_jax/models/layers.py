"""Linen layers whose cost stays low when every client carries its own weights.

Kernels start at He's U(-b, b) with b = sqrt(6 / fan_in), and biases at 0. With plain
SGD at a learning rate of 0.1 they learn about twice as fast as from PyTorch's default,
b = sqrt(1 / fan_in). Convolutions that a normalisation follows start at PyTorch's
default (`PYTORCH_UNIFORM`): their scale does not change what the network computes, but
the published noise is relative to it.
"""

import flax.linen as nn
import jax.numpy as jnp

from fedsvp_jax.models.kernels import Kernels, Padding, conv2d, matmul, max_pool_2x2
from fedsvp_jax.structs import Array

HE_UNIFORM = nn.initializers.variance_scaling(2.0, "fan_in", "uniform")
PYTORCH_UNIFORM = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
_HE_UNIFORM_OUT_IN = nn.initializers.variance_scaling(
    2.0, "fan_in", "uniform", in_axis=-1, out_axis=-2
)


class Dense(nn.Module):
    """y = x W^T + b over the last axis, with the kernel stored as (out, in)."""

    features: int
    use_bias: bool = True
    kernel_init: nn.initializers.Initializer = _HE_UNIFORM_OUT_IN
    kernels: Kernels = "cpu"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        kernel = self.param(
            "kernel", self.kernel_init, (self.features, x.shape[-1]), jnp.float32
        )
        y = matmul(x.reshape(-1, x.shape[-1]), kernel, kernels=self.kernels)
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
    kernels: Kernels = "cpu"
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
            kernels=self.kernels,
        )


class ConvReluPool(nn.Module):
    """max_pool_2x2(relu(conv(x) + b)), computed as relu(max_pool_2x2(conv(x)) + b).

    Adding a bias and ReLU are monotone. Values therefore have the same bits in both
    orders, the gradient reaches the same element, and a quarter of the work is left.
    """

    features: int
    kernel_size: tuple[int, int]
    kernels: Kernels = "cpu"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        convolved = Conv(self.features, self.kernel_size, kernels=self.kernels)(x)
        pooled = max_pool_2x2(convolved, kernels=self.kernels)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return nn.relu(pooled + bias[None, None, None])
