"""A linear layer on features."""

import flax.linen as nn

from fedsvp_jax.models.layers import Dense
from fedsvp_jax.structs import Array


class Linear(nn.Module):
    """y = x W^T + b; W and b start at 0, since the loss is convex in them."""

    num_classes: int

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        if x.ndim != 2:
            raise ValueError(
                f"a linear model on features takes vectors, got examples of the shape "
                f"{x.shape[1:]}; fedsvp_jax.federation.features.of_images makes "
                "features of a data set's images"
            )
        return Dense(self.num_classes, kernel_init=nn.initializers.zeros)(x)
