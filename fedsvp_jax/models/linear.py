"""A linear layer on features."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.float32 import pairwise_sum
from fedsvp_jax.core.structs import Array


class Linear(nn.Module):
    """y = x W^T + b; W (out, in) and b start at 0, since the loss is convex in them.

    Where the shares of the classes are public, b starts at their logarithms, which
    predict these shares.
    """

    num_classes: int
    shares: tuple[float, ...] = ()

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        if x.ndim != 2:
            raise ValueError(
                f"a linear model takes vectors, got examples of the shape "
                f"{x.shape[1:]}; for images use model=mlp, or scatter_linear, which "
                "makes features of them"
            )
        zeros = nn.initializers.zeros
        shape = (self.num_classes, x.shape[-1])
        kernel = self.param("kernel", zeros, shape, jnp.float32)
        bias = self.param("bias", self._prior, (self.num_classes,), jnp.float32)
        return x @ kernel.T + bias[None]

    def _prior(self, key: Array, shape: tuple[int], dtype: jnp.dtype) -> Array:
        shares = np.asarray(self.shares or np.ones(shape), np.float64)
        return jnp.asarray(np.log(shares / shares.max()), dtype)


def gradient_scale(x: Array) -> Array:
    """(n, f) -> (n,): ‖∂ℓ/∂(W, b)‖ / ‖∂ℓ/∂logits‖ of every example.

    The gradient by W is the outer product of the one by the logits with x, and the
    gradient by b is the one by the logits (Goodfellow 2015, arXiv 1510.01799). Off by
    at most 24u of itself, as a norm is (`tree.l2_norm`).
    """
    return jnp.sqrt(1 + pairwise_sum(jnp.square(x.T)))
