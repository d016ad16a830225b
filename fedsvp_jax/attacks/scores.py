"""Scores of reconstructions: are they recognised, similar to real images, copies?"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.attacks import frechet
from fedsvp_jax.attacks.classifier import Classifier
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
      classifier: decides which class an image shows, and computes the features between
        which distances are taken.
      real: class -> its real images, (n, height, width, channels) in [-1, 1].
      num_images: most real images, evenly spaced, in the distances of features. The
        nearest neighbour is searched among all real images.
    """

    def __init__(
        self,
        classifier: Classifier,
        real: dict[int, Array],
        *,
        num_images: int,
    ) -> None:
        self._classifier = classifier
        self._real = {label: np.asarray(images) for label, images in real.items()}
        self._features = {
            label: classifier(unit_pixels(evenly(images, num_images)))
            for label, images in real.items()
        }

    def score(self, images: Array, label: int) -> Scores:
        """The scores of images (n, height, width, channels) that should be `label`."""
        real, generated = self._features[label], self._classifier(unit_pixels(images))
        distance = frechet.frechet_distance(
            *frechet.gaussian_fit(real), *frechet.gaussian_fit(generated)
        )
        kernel = frechet.kernel_distance(real, generated)
        near = frechet.nearest_distances(np.asarray(images), self._real[label])
        return Scores(
            recognised=float(np.mean(self._classifier.classify(images) == label)),
            frechet_distance=distance,
            kernel_distance=kernel.distance,
            kernel_standard_error=kernel.standard_error,
            nearest_distance=float(near.mean()),
        )


def unit_pixels(images: Array | np.ndarray) -> np.ndarray:
    """Images in [-1, 1] as extractors take them, in [0, 1]."""
    return np.clip(np.asarray(images) / 2 + 0.5, 0, 1)


def evenly(rows: Array, limit: int) -> Array:
    """At most `limit` of the rows, evenly spaced."""
    count = len(rows)
    return rows if count <= limit else rows[jnp.arange(limit) * count // limit]
