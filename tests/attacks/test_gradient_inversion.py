"""An image comes back from a clean gradient, and not from a noised one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedsvp_jax import models
from fedsvp_jax.attacks import gradient_inversion as inversion
from fedsvp_jax.core.structs import Array, Params
from fedsvp_jax.data import preprocessing, sources

CLASSES = 10
DIGITS = sources.load("digits")
IMAGES = preprocessing.normalize(jnp.asarray(DIGITS.train_inputs[:1]))
LABEL = int(DIGITS.train_labels[0])
MODEL = models.make_model("mlp", num_classes=CLASSES)


@functools.cache
def start() -> Params:
    return MODEL.init(jax.random.key(0), IMAGES)[0]


def gradient(images: Array, label: Array) -> Params:
    def loss(params: Params) -> Array:
        logits, _ = MODEL.apply(params, {}, images, train=True, key=None)
        return optax.softmax_cross_entropy_with_integer_labels(
            logits, label[None]
        ).mean()

    return jax.grad(loss)(start())


@functools.cache
def search(match: inversion.Match, noise_std: float) -> tuple[float, float]:
    """(PSNR, objective) of an attack on a gradient with noise."""
    label = jnp.int32(LABEL)
    seen = gradient(IMAGES, label)
    keys = iter(jax.random.split(jax.random.key(1), 8))
    seen = jax.tree.map(
        lambda g: g + noise_std * jax.random.normal(next(keys), g.shape), seen
    )
    found, objective = jax.jit(
        lambda seen, key: inversion.invert(
            lambda images: gradient(images, label),
            seen,
            IMAGES.shape,
            inversion.Search(match, steps=300, restarts=4, tv_weight=1e-6),
            key=key,
        )
    )(seen, jax.random.key(2))
    images = (np.asarray(found) + 1) / 2
    truth = (np.asarray(IMAGES) + 1) / 2
    assert images.min() >= 0 and images.max() <= 1
    return inversion.psnr(images[0], truth[0]), float(objective)


@pytest.mark.parametrize("match", inversion.MATCHES)
def test_a_clean_gradient_gives_the_image_away(match: inversion.Match):
    quality, objective = search(match, 0.0)
    assert quality >= 25
    assert objective < 1e-2


def test_noise_as_long_as_the_gradient_hides_it():
    quality, objective = search("cosine", 3.0)
    assert quality < 10 and objective > 0.5


@pytest.mark.parametrize(
    ("match", "other", "expected"),
    [("l2", [6, 0], 0.25), ("cosine", [6, 0], 0.0), ("cosine", [0, 1], 1.0)],
)
def test_l2_counts_the_gap_and_cosine_the_angle_alone(
    match: inversion.Match, other: list[int], expected: float
):
    a, b = ({"w": jnp.asarray(x, jnp.float32)} for x in ([3, 0], other))
    np.testing.assert_allclose(inversion.disagreement(match, a, b), expected, atol=1e-6)


def test_the_label_is_where_the_last_bias_falls():
    for label in (0, 3, 9):
        seen = gradient(IMAGES, jnp.int32(label))
        assert inversion.inferred_label(seen, CLASSES) == label
    with pytest.raises(ValueError, match="no bias of 7 logits"):
        inversion.inferred_label(seen, 7)
