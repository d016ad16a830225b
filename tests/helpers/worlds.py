"""Small worlds of the filter, made of Gaussian classes in place of features."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import prng
from fedsvp_jax.attacks import corruption
from fedsvp_jax.influence import Batches, FilterRates, last_layer, pipeline
from fedsvp_jax.structs import Array

NUM_CLASSES = 5


class World(NamedTuple):
    kernel: Array
    train: Batches
    test: Batches
    corrupted: np.ndarray


def make_world(
    num: int = 20, num_train: int = 40, num_test: int = 20, seed: int = 0
) -> World:
    """30% of the participants have 90% random labels."""
    root = prng.root_key(seed)
    means_key, warm_key, train_key, test_key = jax.random.split(root, 4)
    means = jax.random.normal(means_key, (NUM_CLASSES, 8))

    def draw(key: Array, *shape: int) -> tuple[Array, Array]:
        one, two = jax.random.split(key)
        labels = jax.random.randint(one, shape, 0, NUM_CLASSES, jnp.int32)
        return means[labels] + jax.random.normal(two, (*shape, 8)), labels

    raw, labels = draw(warm_key, 50)
    scaling, kernel = pipeline.fit_last_layer(
        raw, labels, num_classes=NUM_CLASSES, num_epochs=5, learning_rate=5.0
    )
    bad = corruption.corrupted_participants(root, num, 0.3)
    x, labels = draw(train_key, num, num_train)
    for client in np.flatnonzero(bad):
        made = corruption.corrupt(
            x[client],
            labels[client],
            num_train,
            kind="random_labels",
            num_classes=NUM_CLASSES,
            share=0.9,
            key=prng.stream_key(root, prng.Stream.CORRUPTION, int(client)),
        )
        labels = labels.at[client].set(made.labels)

    def batches(x: Array, labels: Array) -> Batches:
        scaled = last_layer.scaled(scaling, x.reshape(-1, 8)).reshape(x.shape)
        return Batches(scaled, labels, jnp.ones(labels.shape))

    test = batches(*draw(test_key, num, num_test))
    return World(kernel, batches(x, labels), test, bad)


def rates(**changes: float) -> FilterRates:
    """Without any noise, but for the changes."""
    chosen = {
        "local_epochs": 5,
        "learning_rate": 5.0,
        "clip": 0.5,
        "noise_multiplier": 0.0,
        "flip_probability": 0.0,
        "minimum_gap": 0.0,
    } | changes
    epochs = jnp.int32(chosen.pop("local_epochs"))
    others = {name: jnp.float32(value) for name, value in chosen.items()}
    return FilterRates(local_epochs=epochs, **others)
