"""The Vision Transformer (Dosovitskiy et al. 2021), small enough to be trained."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from fedsvp_jax.models.kernels import Kernels
from fedsvp_jax.models.layers import Dense
from fedsvp_jax.structs import Array

# The initial scale of ViT's authors, for kernels (out, in) as in `Dense`.
_XAVIER_OUT_IN = nn.initializers.variance_scaling(
    1.0, "fan_avg", "uniform", in_axis=-1, out_axis=-2
)


class EncoderLayer(nn.Module):
    """x + attention(norm(x)), then x + perceptron(norm(x))."""

    num_attention_heads: int
    intermediate_size: int
    kernels: Kernels

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """(batch, tokens, hidden) -> the same shape."""
        batch, tokens, hidden = x.shape
        by_head = (batch, tokens, self.num_attention_heads, -1)
        dense = partial(_dense, kernels=self.kernels)
        y = _norm("layernorm_before")(x)
        query, key, value = (
            dense(hidden, name, use_bias=False)(y).reshape(by_head)
            for name in ("query", "key", "value")
        )
        mixed = jax.nn.dot_product_attention(query, key, value).reshape(x.shape)
        x = x + dense(hidden, "attention_output")(mixed)
        y = _norm("layernorm_after")(x)
        y = nn.gelu(dense(self.intermediate_size, "intermediate")(y), approximate=False)
        return x + dense(hidden, "output")(y)


class ViT(nn.Module):
    """Patches and a class token with learned positions, encoder layers, logits.

    All layers, also the one that embeds the patches, are matrix products, so that
    weights that differ between clients cost batched matrix products only. A patch is
    4 pixels wide, or 2 if a side of the image is shorter than 16. Queries, keys and
    values have no biases: the gradient of a key's is 0, since it adds the same to all
    scores of a query.
    """

    num_classes: int
    hidden_size: int = 64
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    intermediate_size: int = 128
    kernels: Kernels = "cpu"

    @nn.compact
    def __call__(self, x: Array, *, train: bool) -> Array:
        """(batch, height, width, channels) -> (batch, num_classes).

        Raises:
          ValueError: the patches do not divide the image.
        """
        del train  # no dropout: as published for fine-tuning
        dense = partial(_dense, kernels=self.kernels)
        x = dense(self.hidden_size, "patch_embedding")(self._patches(x))
        batch, count, hidden = x.shape
        class_token = self.param(
            "cls_token", nn.initializers.zeros, (1, 1, hidden), jnp.float32
        )
        positions = self.param(
            "position_embeddings",
            nn.initializers.normal(0.02),
            (1, count + 1, hidden),
            jnp.float32,
        )
        class_tokens = jnp.broadcast_to(class_token, (batch, 1, hidden))
        x = jnp.concatenate([class_tokens, x], axis=1) + positions
        for i in range(self.num_hidden_layers):
            x = EncoderLayer(
                self.num_attention_heads,
                self.intermediate_size,
                self.kernels,
                name=f"layer_{i}",
            )(x)
        features = _norm("layernorm")(x[:, 0])
        return dense(self.num_classes, "classifier")(features)

    def _patches(self, x: Array) -> Array:
        """(batch, height, width, c) -> (batch, patches, c * side * side)."""
        if x.ndim != 4:
            raise ValueError(f"vit takes images, got examples of shape {x.shape[1:]}")
        batch, height, width, channels = x.shape
        side = 4 if min(height, width) >= 16 else 2
        if height % side or width % side:
            raise ValueError(
                f"patches of {side}x{side} must divide the image, got {height}x{width}"
            )
        rows, columns = height // side, width // side
        x = x.reshape(batch, rows, side, columns, side, channels)
        return x.transpose(0, 1, 3, 5, 2, 4).reshape(batch, rows * columns, -1)


def _dense(
    features: int, name: str, *, kernels: Kernels, use_bias: bool = True
) -> Dense:
    return Dense(features, use_bias, _XAVIER_OUT_IN, kernels, name=name)


def _norm(name: str) -> nn.LayerNorm:
    return nn.LayerNorm(epsilon=1e-12, use_fast_variance=False, name=name)
