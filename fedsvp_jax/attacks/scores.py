"""Scores of reconstructions: are they recognised, similar to real images, copies?

An independent judge says so: a classifier that takes part in no federation. It is
trained on all real training images, by another library and with another architecture
than the attacked model. The attacked model cannot decide whether a reconstruction shows
its class, since the attacker optimised the images for it. The last hidden layer of the
classifier gives the features for the distances.

The Fréchet distance compares two Gaussian fits (Heusel et al. 2017, arXiv 1706.08500).
It is called FID only with the features of Inception-v3's last pooling, which are not
computed here.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset

FEATURE_SIZE = 64
_HIDDEN = (256, FEATURE_SIZE)
_TRAIN_BATCH = 100

# Images (n, height, width, channels) in [-1, 1] -> their features (n, 64), and the most
# likely classes (n,).
Judge = Callable[[Array], tuple[np.ndarray, np.ndarray]]


def train_classifier(dataset: Dataset, *, seed: int, steps: int) -> Judge:
    """Two hidden layers of tanh, by scikit-learn's Adam on batches of training images.

    Args:
      dataset: of images.
      seed: draws the initial weights and the batches.
      steps: of Adam, on 100 images each.
    """
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier(_HIDDEN, activation="tanh", random_state=seed)
    rng, labels = np.random.default_rng(seed), dataset.train_labels
    classes = np.arange(dataset.num_classes)
    for _ in range(steps):
        rows = rng.integers(0, len(labels), _TRAIN_BATCH)
        images = preprocessing.normalize(jnp.asarray(dataset.train_inputs[rows]))
        network.partial_fit(_flat(images), labels[rows], classes=classes)

    def judge(images: Array) -> tuple[np.ndarray, np.ndarray]:
        features = flat = _flat(images)
        layers = zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True)
        for weights, bias in layers:
            features = np.tanh(features @ weights + bias)
        return features, network.predict(flat)

    return judge


def _flat(images: Array) -> np.ndarray:
    return np.asarray(images).reshape(len(images), -1)


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
        rows = _flat(images)
        nearest = cdist(rows, _flat(real)).min(axis=1) / np.sqrt(rows.shape[1])
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
