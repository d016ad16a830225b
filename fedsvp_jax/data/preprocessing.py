"""From stored examples to what a model sees: scaling, size, augmentation."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.structs import Array, Examples

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


def normalize(inputs: Array) -> Array:
    """What a model sees: uint8 pixels x as (x - 127.5) / 127.5 in [-1, 1].

    Floats pass as they are. The pixel range is the papers' (the authors' code). Runs
    inside jit with the bits it has outside: the difference is exact, and a product
    by a constant is rounded once, where a compiled division may be either.

    Args:
      inputs: (..., *example_shape) uint8 or float32.

    Returns:
      (..., *example_shape) float32.
    """
    if inputs.dtype == jnp.uint8:
        return (inputs.astype(jnp.float32) - 127.5) * (1 / 127.5)
    return inputs


def to_rgb32(dataset: Dataset) -> Dataset:
    """The images as 32×32×3, as the papers' EMNIST CNN takes them.

    Smaller images are centred and their edge pixels continued outwards, which keeps
    a black (EMNIST) or a white (LEAF FEMNIST) background; a single channel is
    repeated. The source does not say how its images were enlarged: a reconstruction.

    Raises:
      ValueError: the inputs are no uint8 images of at most 32×32 and 1 or 3 channels.
    """
    shape = dataset.example_shape
    if (
        dataset.train_inputs.dtype != np.uint8
        or len(shape) != 3
        or max(shape[:2]) > 32
        or shape[2] not in (1, 3)
    ):
        raise ValueError(
            f"dataset {dataset.name} holds {dataset.train_inputs.dtype} examples of "
            f"the shape {shape}; to_rgb32 expects uint8 images of at most 32×32 and 1 "
            "or 3 channels"
        )
    margins = [((32 - side) // 2, (33 - side) // 2) for side in shape[:2]]

    def enlarge(images: np.ndarray) -> np.ndarray:
        padded = np.pad(images, [(0, 0), *margins, (0, 0)], mode="edge")
        return np.repeat(padded, 3 // shape[2], axis=-1)

    return dataclasses.replace(
        dataset,
        train_inputs=enlarge(dataset.train_inputs),
        test_inputs=enlarge(dataset.test_inputs),
    )


def device_examples(
    inputs: np.ndarray, labels: np.ndarray, attributes: np.ndarray | None = None
) -> Examples:
    """The arrays on the device, as stored: uint8 pixels stay uint8.

    Args:
      inputs: (n, *example_shape) uint8 or float32.
      labels: (n,) int32.
      attributes: (n,) int32, or None for a test set, whose attributes nothing reads.

    Raises:
      ValueError: the arrays are not equally long.
    """
    if attributes is None:
        attributes = np.zeros(len(labels), np.int32)
    if not len(inputs) == len(labels) == len(attributes):
        raise ValueError(
            "inputs, labels and attributes must be equally long, got "
            f"{len(inputs)}, {len(labels)} and {len(attributes)}"
        )
    return Examples(
        inputs=jnp.asarray(inputs),
        labels=jnp.asarray(labels, jnp.int32),
        attributes=jnp.asarray(attributes, jnp.int32),
    )
