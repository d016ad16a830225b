"""An NNX module as a pair of pure functions."""

import re

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from small_runs import digits, small

from fedsvp_jax import federation, models
from fedsvp_jax.models import adapters


class _Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.hidden = nnx.Linear(4, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.logits = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x):
        return self.logits(self.dropout(nnx.relu(self.norm(self.hidden(x)))))


@pytest.fixture(scope="module")
def net():
    model = models.from_nnx(_Net)
    x = jax.random.normal(jax.random.key(0), (5, 4), jnp.float32)
    return model, *model.init(jax.random.key(1), x), x


def test_a_linen_module_without_train_is_called_without_it():
    """U4: it failed with `unexpected keyword 'train'`."""
    module = nn.Dense(3)
    model = models.from_linen(module)
    x = jnp.ones((2, 4))
    params, stats = model.init(jax.random.key(0), x)
    logits, _ = model.apply(params, stats, x, train=True, key=jax.random.key(1))
    assert jnp.array_equal(logits, module.apply({"params": params}, x))


def test_the_wrapped_module_equals_the_module_itself(net):
    model, params, stats, x = net
    module = _Net(nnx.Rngs(jax.random.key(1)))
    module.eval()
    logits, same = model.apply(params, stats, x, train=False, key=None)
    np.testing.assert_array_equal(logits, module(x))
    assert same is stats


def test_the_key_decides_dropout_and_only_training_moves_statistics(net):
    """Also of two models side by side."""
    model, params, stats, x = net

    @jax.jit
    @jax.vmap
    def both(params, key):
        return model.apply(params, stats, x, train=True, key=key)

    keys = jax.random.split(jax.random.key(2), 2)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), params)
    (first, other), moved = both(stacked, keys)
    again, _ = model.apply(params, stats, x, train=True, key=keys[0])
    np.testing.assert_allclose(first, again, rtol=1e-4, atol=1e-5)
    assert np.any(first != other)
    for old, new in zip(jax.tree.leaves(stats), jax.tree.leaves(moved), strict=True):
        assert np.any(old != new[0])
    with pytest.raises(ValueError, match="key must be given"):
        model.apply(params, stats, x, train=True, key=None)


def test_an_nnx_module_trains_under_vmap_over_stacked_parameters(net):
    model, params, stats, x = net

    @jax.jit
    def gradient(params, key):
        return jax.grad(
            lambda p: jnp.sum(model.apply(p, stats, x, train=True, key=key)[0] ** 2)
        )(params)

    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf * 2]), params)
    keys = jax.random.split(jax.random.key(4), 2)
    together = jax.jit(jax.vmap(gradient))(stacked, keys)
    alone = gradient(jax.tree.map(lambda leaf: leaf * 2, params), keys[1])
    beside = jax.tree.map(lambda leaf: leaf[1], together)
    chex.assert_trees_all_close(beside, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["mlp", "small_cnn", "resnet18", "resnet18_gn"])
def test_in_bfloat16_every_product_is_and_every_gradient_is_float32(name):
    model = models.make_model(name, num_classes=3)
    x = jnp.ones((2, 32, 32, 3), jnp.float32)
    params, stats = jax.eval_shape(model.init, jax.random.key(0), x)
    stats = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), stats)
    rounded = adapters.in_dtype(model, "bfloat16")

    def loss(params):
        key = jax.random.key(0)
        return jnp.sum(rounded.apply(params, stats, x, train=True, key=key)[0])

    # Flax's own norms mix bfloat16 with float32, which the tests forbid in our code.
    promotion = "standard" if name == "resnet18" else "strict"
    with jax.numpy_dtype_promotion(promotion):
        step = jax.jit(jax.grad(loss)).lower(params)
    factors = re.findall(r"dot_general .*: \((.*), (.*)\) ->", step.as_text())
    assert factors and all(f.endswith("xbf16>") for two in factors for f in two)
    gradients = jax.tree.leaves(step.out_info)
    assert {leaf.dtype for leaf in gradients} == {jnp.dtype("float32")}


def test_bfloat16_is_near_float32_and_leaves_statistics_in_float32(net):
    model, params, stats, x = net
    assert adapters.in_dtype(model, "float32") is model
    rounded = adapters.in_dtype(model, "bfloat16")
    training = {"train": True, "key": jax.random.key(2)}
    exact, moved = model.apply(params, stats, x, **training)
    with jax.numpy_dtype_promotion("standard"):  # Flax's BatchNorm mixes both formats
        near, near_moved = rounded.apply(params, stats, x, **training)
    assert near.dtype == jnp.float32 and bool(jnp.any(near != exact))
    np.testing.assert_allclose(near, exact, atol=0.05)
    chex.assert_trees_all_equal_dtypes(near_moved, moved)
    chex.assert_trees_all_close(near_moved, moved, atol=0.02)


@pytest.mark.hole
def test_dropout_that_training_does_not_switch_is_refused_in_a_sentence() -> None:
    """Its evaluation ended in flax's InvalidRngError."""

    class Always(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(nn.Dropout(0.5, deterministic=False)(x))

    model = models.from_linen(Always())
    x = jnp.ones((2, 4))
    params, stats = model.init(jax.random.key(0), x)
    with pytest.raises(ValueError, match="Always draws random numbers, or changes"):
        model.apply(params, stats, x, train=False, key=None)


@pytest.mark.hole
def test_a_batch_norm_that_training_does_not_switch_is_refused_in_a_sentence() -> None:
    """Its evaluation ended in flax's "Cannot update variable mean"."""

    class Moving(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(nn.BatchNorm(use_running_average=False)(x))

    model = models.from_linen(Moving())
    x = jnp.ones((2, 4))
    params, stats = model.init(jax.random.key(0), x)
    with pytest.raises(ValueError, match=r"BatchNorm\(use_running_average=not"):
        model.apply(params, stats, x, train=False, key=None)


@pytest.mark.hole
@pytest.mark.parametrize("module", [nn.Dense(10), _Net], ids=["linen", "nnx"])
def test_a_bare_module_is_told_to_be_wrapped(module) -> None:
    """It ended in `object has no attribute "_replace"`."""
    with pytest.raises(
        ValueError, match=r"models\.from_linen.Net... or, of NNX, models"
    ):
        federation.build([small()], digits(), model=module)
