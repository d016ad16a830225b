"""Scores of reconstructions: are they recognised, similar to real images, copies?

The Fréchet distance compares two Gaussian fits (Heusel et al. 2017, arXiv 1706.08500).
It is called FID only with the features of Inception-v3's last pooling, which are not
computed here.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array

from .classifier import Judge


class Scores(NamedTuple):
    """The scores of images that should show one class."""

    recognised: float  # share that the independent classifier assigns to the class
    frechet_distance: float  # to the real images, in the classifier's features
    nearest_distance: float  # mean over images; RMS over pixels in [-1, 1]


Examiner = Callable[[Array], Scores]  # of images (n, height, width, channels)


def frechet_distance(features_a: np.ndarray, features_b: np.ndarray) -> float:
    """|m_a - m_b|² + tr(A + B - 2 (A B)^(1/2)): squared 2-Wasserstein of Gaussians.

    m and A are the mean and the covariance of a sample. With A = RᵀR and B = SᵀS the
    trace of the root is the sum of the singular values of R Sᵀ, so that no root of a
    matrix is taken and no rank is needed.

    Args:
      features_a, features_b: (n, d) and (m, d), n and m >= 2.
    """
    means = [sample.mean(axis=0) for sample in (features_a, features_b)]
    first, second = (
        np.linalg.qr((sample - mean) / np.sqrt(len(sample) - 1)).R
        for sample, mean in zip((features_a, features_b), means, strict=True)
    )
    overlap = np.linalg.norm(first @ second.T, "nuc")
    spread = np.sum(first**2) + np.sum(second**2) - 2 * overlap
    return float(np.sum((means[0] - means[1]) ** 2) + max(spread, 0.0))


def make_examiner(judge: Judge, real: Array, label: int, num_images: int) -> Examiner:
    """What scores images against the real ones of their class.

    Args:
      judge: decides which class an image shows, and computes the features between
        which distances are taken.
      real: (n, height, width, channels) in [-1, 1], the real images of the class.
      label: the class.
      num_images: most real images, evenly spaced, in the distances of features. The
        nearest neighbour is searched among all real images.
    """
    from scipy.spatial.distance import cdist

    real_features, _ = judge(evenly(real, num_images))

    def score(images: Array) -> Scores:
        features, labels = judge(images)
        rows, real_rows = (np.reshape(x, (len(x), -1)) for x in (images, real))
        nearest = cdist(rows, real_rows).min(axis=1) / np.sqrt(rows.shape[1])
        return Scores(
            recognised=float(np.mean(labels == label)),
            frechet_distance=frechet_distance(real_features, features),
            nearest_distance=float(nearest.mean()),
        )

    return score


def evenly(rows: Array, limit: int) -> Array:
    """At most `limit` of the rows, evenly spaced."""
    count = len(rows)
    return rows if count <= limit else rows[jnp.arange(limit) * count // limit]
