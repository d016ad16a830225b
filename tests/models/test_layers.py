"""Layers against Flax's and XLA's own: dense, convolution with pool, GroupNorm."""

import functools

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import assert_close, normal, quick_jit, window_pool

from fedsvp_jax.models import layers
from fedsvp_jax.models.kernels import conv2d, one_pass_pool, relu_pool
from fedsvp_jax.models.layers import GroupNorm


def test_conv_relu_pool_equals_pooling_after_bias_and_relu_to_the_bit():
    x = normal(0, 2, 8, 8, 3)
    layer = layers.ConvReluPool(4, 3, kernels="cpu")
    variables = layer.init(jax.random.key(1), x)

    def plain(variables, x):
        params = variables["params"]
        y = conv2d(x, params["Conv_0"]["kernel"], kernels="cpu")
        return window_pool(jax.nn.relu(y + params["bias"][None, None, None]))

    np.testing.assert_array_equal(layer.apply(variables, x), plain(variables, x))
    ours, theirs = (
        jax.jit(jax.grad(lambda v, f=f: jnp.sum(jnp.sin(f(v, x)))))(variables)
        for f in (layer.apply, plain)
    )
    assert_close(ours, theirs, scale=10.0)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    height=st.integers(2, 9),
    width=st.integers(2, 9),
    levels=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_pool_and_its_gradient_equal_reduce_window_ties_included(
    height, width, levels, seed
):
    key = jax.random.key(seed)
    x = jax.random.randint(key, (2, height, width, 3), 0, levels).astype(jnp.float32)

    @functools.partial(quick_jit, static_argnums=0)
    def value_and_gradient(pool, x):
        y, pull = jax.vjp(pool, x)
        return y, pull(jnp.arange(y.size, dtype=jnp.float32).reshape(y.shape))[0]

    chex.assert_trees_all_equal(
        value_and_gradient(one_pass_pool, x), value_and_gradient(window_pool, x)
    )

    bias = jnp.array([-1.0, 0.0, 1.0])
    x -= 2  # on both sides of the ReLU's 0, and on it

    def gpus(x, bias):
        return relu_pool(x, bias, kernels="cuda")

    def plain(x, bias):
        return nn.relu(window_pool(x) + bias[None, None, None])

    chex.assert_trees_all_equal(gpus(x, bias), plain(x, bias))
    (ours, pull), (theirs, plain_pull) = (
        jax.vjp(pool, x, bias) for pool in (gpus, plain)
    )
    chex.assert_trees_all_equal(ours, theirs)
    gradient = jnp.arange(ours.size, dtype=jnp.float32).reshape(ours.shape)
    chex.assert_trees_all_equal(pull(gradient), plain_pull(gradient))
    # A byte an element is all that the gradient reads.
    kept = [leaf for leaf in jax.tree.leaves(pull) if leaf.ndim == 4]
    assert sum(leaf.nbytes for leaf in kept) <= ours.size + bias.nbytes


def test_group_norm_equals_flax_forward_and_in_every_gradient():
    x = 2.0 * normal(0, 3, 4, 5, 64) + 1.0
    variables = {"params": {"scale": 1.0 + normal(1, 64) / 4, "bias": normal(2, 64)}}

    def with_gradients(layer):
        y, pull = jax.vjp(layer.apply, variables, x)
        return y, pull(jnp.cos(y))

    ours, theirs = (
        jax.jit(with_gradients, static_argnums=0)(layer)
        for layer in (GroupNorm(), nn.GroupNorm(num_groups=32, epsilon=1e-5))
    )
    assert_close(ours, theirs, scale=5.0)


def test_group_norm_of_bfloat16_takes_its_statistics_in_float32():
    """The variance is 1 beside a mean square of 401; in bfloat16 it would be lost."""
    x = (normal(0, 3, 8, 8, 64) + 20.0).astype(jnp.bfloat16)
    layer = GroupNorm()
    variables = layer.init(jax.random.key(0), x)
    y = layer.apply(variables, x)
    assert y.dtype == jnp.bfloat16
    exact = layer.apply(variables, x.astype(jnp.float32))
    assert_close(y.astype(jnp.float32), exact, scale=1e4)
