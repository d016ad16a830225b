"""From stored examples to a model's input: scaling, size, augmentation."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array, Examples, iota

PADDING = 4


def random_crop_and_flip(images: Array, numbers: Array, *, key: Array) -> Array:
    """A random crop of each zero-padded image, mirrored with probability 1/2.

    The padding is 4 black pixels (0 of uint8) on each side, as in FedSDP's public code,
    which pads before it scales the pixels.

    Args:
      images: (b, H, W, C) of any dtype, which is kept.
      numbers: (b,) int32: each image's number among its client's records. The crop
        follows the key and this number alone, not the images beside it.
      key: of one step.
    """
    batch, height, width, _ = images.shape
    keys = jax.vmap(partial(jax.random.fold_in, key))(numbers)
    words = jax.vmap(lambda key: jax.random.bits(key, (3,), jnp.uint32))(keys)
    offsets = (words[:, :2] % (2 * PADDING + 1)).astype(jnp.int32)
    flips = words[:, 2] < jnp.uint32(1 << 31)
    edge = (PADDING, PADDING)
    padded = jnp.pad(images, ((0, 0), edge, edge, (0, 0)))
    across = iota(width)[None]
    across = jnp.where(flips[:, None], width - 1 - across, across) + offsets[:, 1:]
    down = iota(height)[None] + offsets[:, :1]
    return padded[iota(batch)[:, None, None], down[:, :, None], across[:, None, :]]


def normalize(inputs: Array) -> Array:
    """A model's input: uint8 pixels x become (x - 127.5) / 127.5 in [-1, 1].

    Floats are returned as they are. The range is the one of the papers (the authors'
    code). The result has the same bits inside and outside jit: the difference is exact,
    and the product with a constant is rounded once, whereas a division by 127.5 may be
    compiled to a division or to a product. Inputs are (..., *example_shape), uint8 or
    float32; the result is float32.
    """
    if inputs.dtype == jnp.uint8:
        return (inputs.astype(jnp.float32) - 127.5) * (1 / 127.5)
    return inputs


def to_rgb32(images: np.ndarray) -> np.ndarray:
    """(n, 32, 32, 3) uint8, which the papers' EMNIST CNN takes, of (n, H, W, C).

    Smaller images are centred and their edge pixels repeated outwards, which continues
    a black (EMNIST) or a white (LEAF FEMNIST) background. A single channel is repeated.
    The papers do not say how they enlarged the images, so this is a reconstruction.
    Images have at most 32×32 pixels and 1 or 3 channels.
    """
    _, height, width, channels = images.shape
    margins = [((32 - side) // 2, (33 - side) // 2) for side in (height, width)]
    padded = np.pad(images, [(0, 0), *margins, (0, 0)], mode="edge")
    return np.repeat(padded, 3 // channels, axis=-1)


def device_examples(
    inputs: np.ndarray,
    labels: np.ndarray,
    attributes: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    persons: np.ndarray | None = None,
) -> Examples:
    """Copies the arrays to the device as they are: uint8 pixels stay uint8.

    Labels, attributes and persons are (n,) int32; attributes are all 0 where they are
    not known.
    """
    if attributes is None:
        attributes = np.zeros(len(labels), np.int32)
    arrays = (inputs, labels, attributes, targets, persons)
    return Examples(*jax.tree.map(jnp.asarray, arrays))
