"""Every built-in model: its size, its laws, and what XLA makes of it."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from layer_checks import quick_jit

from fedsvp_jax import models
from fedsvp_jax.core import tree
from fedsvp_jax.core.settings import MODEL_NAMES
from fedsvp_jax.core.structs import cross_entropy

_SHAPES = {
    "mlp": ((8, 8, 1), 10),
    "small_cnn": ((8, 8, 1), 10),
    "paper_cnn": ((32, 32, 3), 62),
    "leaf_cnn": ((28, 28, 1), 62),
    "resnet18": ((32, 32, 3), 10),
    "resnet18_gn": ((32, 32, 3), 10),
    "scatter_linear": ((324,), 10),
    "scatter_channels_linear": ((324,), 10),
    "logistic": ((9,), 3),
}
# Smaller inputs and fewer classes: the same layers, quick to run.
_QUICK_SHAPES = {
    **_SHAPES,
    "paper_cnn": ((16, 16, 3), 5),
    "leaf_cnn": ((8, 8, 1), 5),
    "resnet18": ((16, 16, 3), 5),
    "resnet18_gn": ((16, 16, 3), 5),
}
_BATCH = 4


def _all_but(*slow):
    marks = {name: pytest.mark.slow for name in slow}
    names = [pytest.param(n, marks=marks.get(n, ())) for n in MODEL_NAMES]
    return pytest.mark.parametrize("name", names)


# ResNet-18 takes long to compile. The one with GroupNorm differs in the norm alone
# (test_layers.py); kernels and lanes of its layers are held by test_convolution.py,
# and by the other networks here.
_ALL_QUICK = _all_but("resnet18_gn")
_NO_RESNET = _all_but("resnet18_gn", "resnet18")


class _Quick:
    """A model at its small shape, each way of calling it compiled once."""

    def __init__(self, name):
        shape, self.num_classes = _QUICK_SHAPES[name]
        self.model = models.make_model(name, num_classes=self.num_classes)
        x = jax.random.normal(jax.random.key(0), (_BATCH, *shape), jnp.float32)
        labels = jnp.arange(_BATCH, dtype=jnp.int32)
        self.params, self.stats = quick_jit(self.model.init)(jax.random.key(1), x)

        def loss(params, key):
            logits, stats = self.model.apply(params, self.stats, x, train=True, key=key)
            return jnp.mean(cross_entropy(logits, labels)), (logits, stats)

        def step(params, key):
            gradient, (logits, stats) = jax.grad(loss, has_aux=True)(params, key)
            return logits, stats, gradient

        self.step = quick_jit(step)
        self.stacked_step = quick_jit(jax.vmap(step))
        self.evaluate = lambda key: self.model.apply(
            self.params, self.stats, x, train=False, key=key
        )


_quick = functools.cache(_Quick)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("mlp", 64 * 128 + 128 + 128 * 10 + 10),
        ("small_cnn", 22_602),
        ("scatter_linear", 325 * 10),
        ("scatter_channels_linear", 325 * 10),
        ("logistic", 10 * 3),
        ("paper_cnn", 567_146),  # FedSDP's public code, METHODS.md section 3
        ("leaf_cnn", 6_603_710),  # LEAF's FEMNIST CNN
        ("resnet18", 11_173_962),  # FedSDP's public code, METHODS.md section 3
        ("resnet18_gn", 11_173_962),
    ],
)
def test_the_number_of_parameters_is_the_published_one(name, count):
    shape, num_classes = _SHAPES[name]
    model = models.make_model(name, num_classes=num_classes)
    params, stats = jax.eval_shape(
        model.init, jax.random.key(0), jnp.zeros((1, *shape), jnp.float32)
    )
    assert tree.num_parameters(params) == count
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    assert bool(stats) == (name == "resnet18")


def test_resnet18_starts_at_the_norm_that_the_published_noise_is_compared_to():
    params = jax.device_get(_quick("resnet18").params)
    assert 79.0 < optax.tree.norm(params) < 81.0  # ~80, METHODS.md section 5


@_ALL_QUICK
def test_a_training_step_gives_logits_and_finite_gradients_that_reach_every_layer(name):
    quick = _quick(name)
    logits, _, gradient = jax.device_get(quick.step(quick.params, jax.random.key(3)))
    assert logits.shape == (_BATCH, quick.num_classes)
    assert logits.dtype == jnp.float32
    for path, leaf in jax.tree.leaves_with_path(gradient):
        assert np.all(np.isfinite(leaf)), path
        assert np.any(leaf != 0.0), path


@_NO_RESNET
def test_stacked_models_under_vmap_equal_one_call_each(name):
    quick = _quick(name)
    first = jax.device_get(quick.params)
    both = (first, jax.tree.map(lambda w: w * np.float32(1.25), first))
    keys = jax.random.split(jax.random.key(4), 2)
    together = jax.device_get(
        quick.stacked_step(jax.tree.map(lambda *leaves: np.stack(leaves), *both), keys)
    )
    for lane, params in enumerate(both):
        alone = jax.device_get(quick.step(params, keys[lane]))
        for stacked, one in zip(*map(jax.tree.leaves, (together, alone)), strict=True):
            tolerance = 2e-3 * float(np.max(np.abs(one)))
            np.testing.assert_allclose(stacked[lane], one, rtol=0, atol=tolerance)


@_ALL_QUICK
def test_the_key_matters_with_dropout_and_statistics_move_in_training_alone(name):
    quick = _quick(name)
    keys = jax.random.split(jax.random.key(5), 2)
    texts = {
        str(jax.make_jaxpr(functools.partial(quick.evaluate, key))())
        for key in (keys[0], None)
    }
    assert len(texts) == 1  # the key plays no part
    _, evaluated = quick_jit(quick.evaluate)(None)
    chex.assert_trees_all_equal(evaluated, quick.stats)
    (first, stats, _), (other, *_) = (quick.step(quick.params, key) for key in keys)
    assert np.array_equal(first, other) == (name != "paper_cnn")
    moved = jax.tree.map(lambda *two: bool(jnp.any(two[0] != two[1])), evaluated, stats)
    assert all(jax.tree.leaves(moved)) and bool(moved) == (name == "resnet18")


@_NO_RESNET
def test_a_step_of_stacked_models_is_products_without_convolutions(name):
    """XLA:CPU runs any convolution inside a loop about 20 times slower."""
    quick = _quick(name)
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), quick.params)
    keys = jax.random.split(jax.random.key(4), 2)
    program = quick.stacked_step.lower(both, keys).as_text()
    assert "stablehlo.convolution" not in program
    assert "stablehlo.dot_general" in program


def test_make_model_names_what_is_allowed():
    with pytest.raises(ValueError, match=r"model must be one of mlp, .*, got 'lenet'"):
        models.make_model("lenet", num_classes=10)
