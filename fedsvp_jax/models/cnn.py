"""A CNN: convolutions with ReLU and 2x2 max-pool, then two dense layers."""

import flax.linen as nn

from fedsvp_jax.models.kernels import Kernels
from fedsvp_jax.models.layers import ConvReluPool, Dense
from fedsvp_jax.structs import Array


class CNN(nn.Module):
    """Blocks of a convolution, ReLU and 2x2 max-pool, then two dense layers.

    Convolutions keep height and width, one block per entry of `channels`. Dropout,
    dense layer, ReLU, dropout and the layer of the logits follow.

    Three sizes are in use (parameter counts: `registry.py`):
      small: 3x3, 16-32, dense 128, for 8x8 images.
      paper: 3x3, 16-32-64, dense 500, dropout .3 (FedSDP's public code, EMNIST).
      LEAF: 5x5, 32-64, dense 2048 (arXiv 1812.01097, FEMNIST).
    """

    num_classes: int
    channels: tuple[int, ...]
    kernel_size: int
    hidden: int
    dropout_rate: float = 0.0
    kernels: Kernels = "cpu"

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        dropout = nn.Dropout(self.dropout_rate, deterministic=not train)
        window = (self.kernel_size, self.kernel_size)
        for features in self.channels:
            x = ConvReluPool(features, window, kernels=self.kernels)(x)
        x = dropout(x.reshape(x.shape[0], -1))
        x = dropout(nn.relu(Dense(self.hidden, kernels=self.kernels)(x)))
        return Dense(self.num_classes, kernels=self.kernels)(x)
