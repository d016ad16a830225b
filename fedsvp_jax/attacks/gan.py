"""Generator and discriminator of the reconstruction attack, for small images.

Both follow DCGAN (Radford et al. 2016, arXiv 1511.06434), with two changes. Upsampling
moves channels into pixels (Shi et al. 2016, arXiv 1609.05158), so that convolutions run
on the smaller image. No layer uses statistics of the batch, so that an image depends on
its own latent only.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.models.layers import Conv, Dense, bias_of
from fedsvp_jax.models.products import joined

LATENT_SIZE = 100
_STEP = 4  # the image is upsampled twice
_CHANNELS = 64, 32  # at a quarter and at half of the image's size


def check_images(dataset: Dataset) -> None:
    """Checks that the generator can make images like those of the data set.

    Raises:
      ValueError: they are no uint8 images whose height and width are multiples of 4.
    """
    shape, dtype = dataset.example_shape, dataset.train_inputs.dtype
    if dtype != np.uint8 or len(shape) != 3 or shape[0] % _STEP or shape[1] % _STEP:
        raise ValueError(
            f"dataset must hold uint8 images (height, width, channels) of heights and "
            f"widths that {_STEP} divides, got {dtype} examples of the shape {shape}"
        )


class Generator(nn.Module):
    """G(z, y): 2x2, 7x7 or 8x8 features, upsampled twice to 8x8, 28x28 or 32x32.

    Attributes:
      image_shape: (height, width, channels).
      num_classes: of the labels y.
    """

    image_shape: tuple[int, ...]
    num_classes: int

    @nn.compact
    def __call__(self, latents: Array, labels: Array) -> Array:
        """latents (n, LATENT_SIZE), labels (n,) int32 -> (n, *image_shape), [-1, 1]."""
        height, width, depth = self.image_shape
        one_hot = jax.nn.one_hot(labels, self.num_classes, dtype=latents.dtype)
        first, second = _CHANNELS
        x = Dense(height // _STEP * (width // _STEP) * first)(
            jnp.concatenate([latents, one_hot], axis=1)
        )
        x = x.reshape(-1, height // _STEP, width // _STEP, first)
        for features in (second, depth):
            # The mean square of a pixel's channels is 1 (Karras et al. 2018).
            x = nn.relu(nn.RMSNorm(epsilon=1e-8, use_scale=False)(x))
            x = _Biased(4 * features, 3)(x)
            # Four channels become 2x2 pixels.
            x = joined(
                x.reshape(*x.shape[:3], 2, 2, features).transpose(0, 1, 3, 2, 4, 5)
            )
        return jnp.tanh(x)


class Discriminator(nn.Module):
    """D(x): real or generated, by patches (Isola et al. 2017, arXiv 1611.07004).

    The attacker has no image of the private class. A discriminator of whole images
    would therefore call every image of that class generated. A patch shows strokes and
    how they join, which the classes that the attacker holds share with the private one.
    Patches are two thirds to three quarters of an image wide: 18 pixels, from two
    layers that halve the image and a 3x3 layer, or 6 pixels, from one such layer and a
    2x2 layer, for images of under 16 pixels.
    """

    @nn.compact
    def __call__(self, images: Array) -> Array:
        """(n, height, width, channels) -> (n, patches) logits, > 0 for real."""
        small = min(images.shape[1:3]) < 16
        x = images
        for features in (16,) if small else (16, 32):
            x = nn.leaky_relu(_Biased(features, 4, 2)(x), 0.2)
        x = nn.leaky_relu(_Biased(32, 2 if small else 3)(x), 0.2)
        return _Biased(1, 1)(x).reshape(len(images), -1)


class _Biased(nn.Module):
    """A convolution with bias."""

    features: int
    side: int  # of the kernel
    stride: int = 1

    @nn.compact
    def __call__(self, x: Array) -> Array:
        bias = bias_of(self, self.features)
        x = Conv(self.features, self.side, self.stride)(x)
        return x + bias[None, None, None]
