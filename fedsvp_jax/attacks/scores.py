"""Scores of reconstructions: are they recognised, similar to real images, copies?"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.attacks import frechet
from fedsvp_jax.attacks.classifier import Judge
from fedsvp_jax.core.structs import Array


class Scores(NamedTuple):
    """The scores of images that should show one class."""

    recognised: float  # share that the independent classifier assigns to the class
    frechet_distance: float  # to the real images, in the classifier's features
    kernel_distance: float  # unbiased squared MMD to them, in the same features
    kernel_standard_error: float
    nearest_distance: float  # mean over images; RMS over pixels in [-1, 1]


class Examiner:
    """Scores images against the real ones of their class.

    Args:
      judge: decides which class an image shows, and computes the features between
        which distances are taken.
      real: class -> its real images, (n, height, width, channels) in [-1, 1].
      num_images: most real images, evenly spaced, in the distances of features. The
        nearest neighbour is searched among all real images.
    """

    def __init__(self, judge: Judge, real: dict[int, Array], num_images: int) -> None:
        self._judge = judge
        self._real = {
            label: (judge(evenly(images, num_images))[0], _rows(images))
            for label, images in real.items()
        }

    def score(self, images: Array, label: int) -> Scores:
        """The scores of images (n, height, width, channels) that should be `label`."""
        from scipy.spatial.distance import cdist

        real, real_pixels = self._real[label]
        generated, labels = self._judge(images)
        kernel, error = frechet.kernel_distance(real, generated)
        pixels = _rows(images)
        nearest = cdist(pixels, real_pixels).min(axis=1) / np.sqrt(pixels.shape[1])
        return Scores(
            recognised=float(np.mean(labels == label)),
            frechet_distance=frechet.frechet_distance(real, generated),
            kernel_distance=kernel,
            kernel_standard_error=error,
            nearest_distance=float(nearest.mean()),
        )


def _rows(images: Array) -> np.ndarray:
    return np.reshape(images, (len(images), -1))


def evenly(rows: Array, limit: int) -> Array:
    """At most `limit` of the rows, evenly spaced."""
    count = len(rows)
    return rows if count <= limit else rows[jnp.arange(limit) * count // limit]
