"""The published augmentation: random crop with padding 4, horizontal flip."""

import jax
import jax.numpy as jnp

from fedsvp_jax.structs import Array

PADDING = 4


def random_crop_and_flip(images: Array, *, key: Array) -> Array:
    """A random crop of the zero-padded image, mirrored half of the time.

    Padding is the black pixel (0 of uint8), as in FedSDP's public code, which
    pads before the pixels are scaled.

    Args:
      images: (b, H, W, C) of any dtype.
      key: the batch's key.

    Returns:
      (b, H, W, C) of the same dtype.
    """
    batch, height, width, _ = images.shape
    crop_key, flip_key = jax.random.split(key)
    offsets = jax.random.randint(crop_key, (batch, 2), 0, 2 * PADDING + 1)
    flips = jax.random.bernoulli(flip_key, shape=(batch,))
    edge = (PADDING, PADDING)
    padded = jnp.pad(images, ((0, 0), edge, edge, (0, 0)))
    across = jnp.arange(width, dtype=jnp.int32)[None]
    across = jnp.where(flips[:, None], width - 1 - across, across) + offsets[:, 1:]
    down = jnp.arange(height, dtype=jnp.int32)[None] + offsets[:, :1]
    rows = jnp.arange(batch, dtype=jnp.int32)[:, None, None]
    return padded[rows, down[:, :, None], across[:, None, :]]
