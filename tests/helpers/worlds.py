"""Small worlds of the filter, made of Gaussian classes in place of features."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array
from fedsvp_jax.influence import last_layer
from fedsvp_jax.influence.lazy import Batches
from fedsvp_jax.influence.settings import FilterSettings

NUM_CLASSES = 5


class World(NamedTuple):
    kernel: Array
    train: Batches
    test: Batches
    corrupted: np.ndarray


def make_world(seed: int = 0) -> World:
    """Of 20 participants 30 % have 90 % random labels."""
    keys = jax.random.split(jax.random.key(seed), 6)
    means = jax.random.normal(keys[0], (NUM_CLASSES, 8))

    def draw(key: Array, *shape: int) -> tuple[Array, Array]:
        one, two = jax.random.split(key)
        labels = jax.random.randint(one, shape, 0, NUM_CLASSES, jnp.int32)
        return means[labels] + jax.random.normal(two, (*shape, 8)), labels

    told = {"num_classes": NUM_CLASSES, "num_epochs": 5, "learning_rate": 5.0}
    scaling, kernel = last_layer.fit_last_layer(*draw(keys[1], 50), **told)

    def batches(x: Array, labels: Array) -> Batches:
        scaled = last_layer.scaled(scaling, x.reshape(-1, 8)).reshape(x.shape)
        return Batches(scaled, labels, jnp.ones(labels.shape))

    corrupted = np.random.default_rng(seed).permutation(20) < 6
    x, labels = draw(keys[2], 20, 40)
    spoilt = corrupted[:, None] & jax.random.bernoulli(keys[3], 0.9, labels.shape)
    labels = jnp.where(spoilt, draw(keys[4], 20, 40)[1], labels)
    return World(kernel, batches(x, labels), batches(*draw(keys[5], 20, 20)), corrupted)


def rates(*, flip: float = 0.0, **changes: float) -> FilterSettings:
    """Without any noise, but for the changes; a vote is turned with the chance f/2."""
    chosen = {
        "influence_epochs": 5,
        "influence_learning_rate": 5.0,
        "influence_clip": 0.5,
        "contribution_noise": 0.0,
        "vote_epsilon": 2 * math.log((1 - flip / 2) / (flip / 2)) if flip else math.inf,
        "minimum_gap": 0.0,
    } | changes
    return FilterSettings(**chosen)
