"""An independent judge of images: a classifier that takes part in no federation.

It is trained on all real training images, by another library and with another
architecture than the attacked model. It decides whether a reconstruction shows its
class. The attacked model cannot decide that, since the attacker optimised the images
for it. The last hidden layer of the classifier gives the features for the distances.
"""

from collections.abc import Callable

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
