"""A multilayer perceptron on flattened inputs."""

import flax.linen as nn

from fedsvp_jax.models.kernels import Kernels
from fedsvp_jax.models.layers import Dense
from fedsvp_jax.structs import Array


class MLP(nn.Module):
    """Dense layers with ReLU between them; the last gives the logits."""

    num_classes: int
    hidden: tuple[int, ...] = (128,)
    kernels: Kernels = "cpu"

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        x = x.reshape(x.shape[0], -1)
        for features in self.hidden:
            x = nn.relu(Dense(features, kernels=self.kernels)(x))
        return Dense(self.num_classes, kernels=self.kernels)(x)
