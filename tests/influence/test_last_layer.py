"""The cut before the last layer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import small

from fedsvp_jax import models
from fedsvp_jax.config import resolve
from fedsvp_jax.core.structs import Model
from fedsvp_jax.devices.target import current_target
from fedsvp_jax.federation.plan import model_by_name
from fedsvp_jax.influence import last_layer
from fedsvp_jax.models.last_layer import backbone_of


@pytest.mark.parametrize(
    "name",
    ["mlp", "small_cnn", pytest.param("resnet18_gn", marks=pytest.mark.slow)],
)
def test_the_features_times_the_last_layer_are_the_logits(name: str):
    def build(num_classes: int) -> Model:
        return models.make_model(name, num_classes=num_classes)

    images = jax.random.randint(jax.random.key(0), (5, 8, 8, 1), 0, 256)
    images = images.astype(jnp.uint8)
    example = images[:1].astype(jnp.float32)
    model = build(7)
    params, stats = model.init(jax.random.key(1), example)
    cut = backbone_of(build, example)
    found = last_layer.freeze(cut, params, stats)(images)
    normal = (images.astype(jnp.float32) - 127.5) / 127.5
    logits, _ = model.apply(params, stats, normal, train=False, key=None)
    (kernel,) = [
        leaf
        for leaf, own in zip(
            jax.tree.leaves(params), jax.tree.leaves(cut.is_last), strict=True
        )
        if own and leaf.ndim == 2
    ]
    assert found.shape == (5, cut.width) and kernel.shape == (7, cut.width)
    np.testing.assert_allclose(found @ kernel.T, logits, atol=1e-4, rtol=1e-4)


def test_a_model_that_starts_from_the_classes_shares_is_cut_too():
    """A bias of 3 shares was added to 2 logits."""
    config = small(model="logistic", class_shares="0.2,0.3,0.5")
    build = model_by_name(resolve(config), current_target(), num_classes=3)
    cut = backbone_of(build, jnp.zeros((1, 4)))
    assert cut.width == 4 and all(jax.tree.leaves(cut.is_last))


def test_descent_is_gradient_descent_on_the_weighted_mean():
    x = jax.random.normal(jax.random.key(0), (6, 3))
    labels = jnp.asarray([0, 1, 2, 0, 1, 3], jnp.int32)
    weights = jnp.asarray([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    start = jnp.zeros((4, 3))
    one = last_layer.descend(start, x, labels, weights, num_epochs=1, learning_rate=2.0)
    wanted = jax.nn.one_hot(labels, 4) - 0.25
    step = 2.0 / 5.0 * (wanted * weights[:, None]).T @ x
    np.testing.assert_allclose(one, step, atol=1e-6)


def test_scaled_features_have_mean_0_and_length_1():
    raw = 5.0 + 3.0 * jax.random.normal(jax.random.key(0), (200, 16))
    x = last_layer.scaled(last_layer.fit_scaling(raw), raw)
    np.testing.assert_allclose(jnp.mean(x, axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(jnp.mean(jnp.sum(x**2, axis=1)), 1.0, rtol=1e-5)
