"""An independent judge of images: a classifier that takes part in no federation.

It is trained on all real training images, with another seed and another architecture
than the attacked model. It decides whether a reconstruction shows its class. The
attacked model cannot decide that, since the attacker optimised the images for it. The
last hidden layer of the classifier gives the features for the distances.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedsvp_jax.core.structs import Array, Params
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.models.batches import in_batches
from fedsvp_jax.models.layers import Conv, Dense

FEATURE_SIZE = 64
BATCH = 500  # images that a network judges at once
_TRAIN_BATCH = 100


class Network(nn.Module):
    """Three convolutions, two of them with stride 2, then 64 features and logits."""

    num_classes: int

    @nn.compact
    def __call__(self, images: Array) -> tuple[Array, Array]:
        """(n, height, width, channels) -> (features (n, 64), logits (n, classes))."""
        x = images
        for features, stride in ((16, 1), (32, 2), (32, 2)):
            x = nn.gelu(Conv(features, (3, 3), (stride, stride))(x))
        x = nn.gelu(Dense(FEATURE_SIZE)(x.reshape(x.shape[0], -1)))
        return x, Dense(self.num_classes)(x)


class Classifier:
    """A trained `Network`; as a feature extractor, its last hidden layer.

    Attributes:
      params: its parameters.
    """

    name = "classifier trained on the real data"

    def __init__(self, num_classes: int, params: Params) -> None:
        self.params = params
        network = Network(num_classes)
        self._apply: Any = jax.jit(lambda images: network.apply(params, images))

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, height, width, channels) in [0, 1] -> (n, 64)."""
        pixels = 2 * jnp.asarray(images, jnp.float32) - 1
        features = in_batches(lambda batch: self._apply(batch)[0], pixels, BATCH)
        return np.concatenate(list(features))

    def classify(self, images: Array) -> np.ndarray:
        """(n,) int: the most likely class of images in [-1, 1]."""
        logits = in_batches(lambda batch: self._apply(batch)[1], images, BATCH)
        return np.concatenate(list(logits)).argmax(axis=1)


def initial_params(dataset: Dataset, key: Array) -> Params:
    """The parameters that training starts from; they have a classifier's shapes."""
    image = jnp.zeros((1, *dataset.example_shape), jnp.float32)
    return Network(dataset.num_classes).init(key, image)


def train_classifier(dataset: Dataset, *, key: Array, steps: int) -> Params:
    """Trains on all training images by Adam; a cosine takes the rate from 1e-3 to 0."""
    inputs = jnp.asarray(dataset.train_inputs)
    labels = jnp.asarray(dataset.train_labels)
    network = Network(dataset.num_classes)
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-3, steps))
    initial, drawing = jax.random.split(key)
    params = initial_params(dataset, initial)

    def loss(params: Params, rows: Array) -> Array:
        _, logits = network.apply(params, preprocessing.normalize(inputs[rows]))
        return jnp.mean(
            optax.softmax_cross_entropy_with_integer_labels(logits, labels[rows])
        )

    def step(
        index: Array, carry: tuple[Params, optax.OptState]
    ) -> tuple[Params, optax.OptState]:
        params, moments = carry
        step_key = jax.random.fold_in(drawing, index)
        rows = jax.random.randint(step_key, (_TRAIN_BATCH,), 0, len(labels))
        return updated(optimizer, jax.grad(loss)(params, rows), moments, params)

    @jax.jit
    def trained(params: Params) -> Params:
        return jax.lax.fori_loop(0, steps, step, (params, optimizer.init(params)))[0]

    return trained(params)


def updated(
    optimizer: optax.GradientTransformation,
    gradient: Params,
    moments: optax.OptState,
    params: Params,
) -> tuple[Params, optax.OptState]:
    """`(params, moments)` after one step of Adam.

    Optax's Adam and its schedules raise Python floats to the power of int32 counts,
    which strict type promotion refuses.
    """
    with jax.numpy_dtype_promotion("standard"):
        change, moments = optimizer.update(gradient, moments, params)
    return optax.apply_updates(params, change), moments
