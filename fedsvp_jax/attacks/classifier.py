"""An independent judge of images: a classifier that takes part in no federation.

It is trained on all real training images, with another seed and another architecture
than the attacked model. It decides whether a reconstruction shows its class. The
attacked model cannot decide that, since the attacker optimised the images for it. The
last hidden layer of the classifier gives the features for the distances.
"""

from collections.abc import Callable
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
_JUDGED = 500  # images at once
_TRAIN_BATCH = 100


class Network(nn.Module):
    """Three convolutions, two of them with stride 2, then 64 features and logits."""

    num_classes: int

    @nn.compact
    def __call__(self, images: Array) -> tuple[Array, Array]:
        """(n, height, width, channels) -> (features (n, 64), logits (n, classes))."""
        x = images
        for features, stride in ((16, 1), (32, 2), (32, 2)):
            x = nn.gelu(Conv(features, 3, stride)(x))
        x = nn.gelu(Dense(FEATURE_SIZE)(x.reshape(x.shape[0], -1)))
        return x, Dense(self.num_classes)(x)


# Images (n, height, width, channels) in [-1, 1] -> their features (n, 64), and the most
# likely classes (n,).
Judge = Callable[[Array], tuple[np.ndarray, np.ndarray]]


def train_classifier(dataset: Dataset, *, key: Array, steps: int) -> Judge:
    """Trains on all training images by Adam; a cosine takes the rate from 1e-3 to 0."""
    inputs = jnp.asarray(dataset.train_inputs)
    labels = jnp.asarray(dataset.train_labels)
    network = Network(dataset.num_classes)
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-3, steps))
    initial, drawing = jax.random.split(key)
    image = jnp.zeros((1, *dataset.example_shape), jnp.float32)
    params = network.init(initial, image)

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

    params = trained(params)

    @jax.jit
    def judged(images: Array) -> Array:
        outputs: Any = network.apply(params, images)
        return jnp.concatenate(outputs, axis=1)

    def judge(images: Array) -> tuple[np.ndarray, np.ndarray]:
        outputs = np.concatenate(list(in_batches(judged, images, _JUDGED)))
        return outputs[:, :FEATURE_SIZE], outputs[:, FEATURE_SIZE:].argmax(axis=1)

    return judge


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
