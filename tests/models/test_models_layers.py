"""Convolution as a matrix product, and the 2x2 max-pool, against XLA's own."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from fedsvp_jax.models import layers
from fedsvp_jax.models.convolution import conv2d
from fedsvp_jax.models.normalization import GroupNorm
from fedsvp_jax.models.pooling import max_pool_2x2

# Laws hold at any optimisation level; this one compiles in half of the time. The
# models' own shapes are tested as they run.
_quick_jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0}
)


def _normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape, jnp.float32)


def _assert_close(ours, reference, scale=1.0):
    """Equal within float32 rounding of sums whose terms are of order `scale`."""
    np.testing.assert_allclose(ours, reference, rtol=2e-5, atol=2e-5 * scale)


def _reference(x, kernel, strides, padding):
    return lax.conv_general_dilated(
        x,
        kernel,
        strides,
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision="highest",
    )


_side = st.integers(1, 9)
_small = st.integers(1, 3)


@st.composite
def _convolutions(draw):
    kernel_size = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    padding = draw(
        st.one_of(
            st.sampled_from(["SAME", "VALID"]),
            st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 4))] * 2),
        )
    )
    pads = ((0, 0), (0, 0)) if isinstance(padding, str) else padding
    sides = [
        max(draw(_side), 1 if padding == "SAME" else k - sum(pad))
        for k, pad in zip(kernel_size, pads, strict=True)
    ]
    return (
        (draw(_small), *sides, draw(_small)),
        (*kernel_size, draw(st.integers(1, 4))),
        (draw(_small), draw(_small)),
        padding,
    )


@settings(max_examples=15, deadline=None)
@given(case=_convolutions(), seed=st.integers(0, 2**16))
def test_patches_equal_lax_convolution_forward_and_in_both_gradients(case, seed):
    shape, (height, width, features), strides, padding = case
    x = _normal(seed, *shape)
    kernel = _normal(seed + 1, height, width, shape[-1], features)

    @functools.partial(_quick_jit, static_argnums=0)
    def value_and_gradients(convolution, x, kernel):
        y, pull = jax.vjp(convolution, x, kernel)
        cotangent = jnp.cos(jnp.arange(y.size, dtype=jnp.float32)).reshape(y.shape)
        return y, *pull(cotangent)

    ours = value_and_gradients(
        lambda x, k: conv2d(x, k, strides=strides, padding=padding, backend="patches"),
        x,
        kernel,
    )
    theirs = value_and_gradients(
        lambda x, k: _reference(x, k, strides, padding), x, kernel
    )
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        _assert_close(a, b, scale=20.0)


@pytest.mark.parametrize(
    ("shape", "kernel_size", "strides", "padding"),
    [
        ((4, 28, 28, 1), (5, 5, 32), (1, 1), "SAME"),
        ((4, 14, 14, 32), (5, 5, 64), (1, 1), "SAME"),
        ((2, 32, 32, 64), (3, 3, 128), (2, 2), ((1, 1), (1, 1))),
        ((2, 32, 32, 64), (1, 1, 128), (2, 2), "VALID"),
        ((2, 4, 4, 512), (3, 3, 512), (1, 1), ((1, 1), (1, 1))),
    ],
)
def test_patches_equal_lax_convolution_at_the_models_own_shapes(
    shape, kernel_size, strides, padding
):
    x = _normal(0, *shape)
    fan_in = kernel_size[0] * kernel_size[1] * shape[-1]
    kernel = _normal(1, *kernel_size[:2], shape[-1], kernel_size[2]) / fan_in**0.5
    results = []
    for backend in ("patches", "lax"):

        def loss(x, kernel, backend=backend):
            y = conv2d(x, kernel, strides=strides, padding=padding, backend=backend)
            return jnp.sum(jnp.sin(y)), y

        (_, y), gradients = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(
            x, kernel
        )
        results.append((y, *gradients))
    for ours, theirs in zip(*results, strict=True):
        _assert_close(ours, theirs, scale=float(jnp.max(jnp.abs(theirs))))


def test_stacked_kernels_give_each_lane_its_own_convolution_and_gradients():
    x, kernels = _normal(0, 3, 2, 6, 6, 4), _normal(1, 3, 3, 3, 4, 5)

    def gradients(x, kernel):
        return jax.grad(
            lambda x, k: jnp.sum(conv2d(x, k, backend="patches") ** 2), (0, 1)
        )(x, kernel)

    stacked = _quick_jit(jax.vmap(gradients))(x, kernels)
    one_lane = _quick_jit(gradients)
    for lane in range(3):
        alone = one_lane(x[lane], kernels[lane])
        for ours, theirs in zip(stacked, alone, strict=True):
            _assert_close(ours[lane], theirs, scale=50.0)


def test_one_kernel_for_stacked_inputs_gives_each_lane_its_own_gradients():
    x, kernel = _normal(0, 3, 1, 6, 6, 4), _normal(1, 3, 3, 4, 5)

    def gradient(x):
        return jax.grad(lambda k: jnp.sum(conv2d(x, k, backend="patches") ** 2))(kernel)

    stacked = _quick_jit(jax.vmap(gradient))(x)
    one_lane = _quick_jit(gradient)
    for lane in range(3):
        _assert_close(stacked[lane], one_lane(x[lane]), scale=50.0)


def test_conv2d_names_a_channel_mismatch_and_an_unknown_backend():
    with pytest.raises(ValueError, match="kernel takes 3 input channels, x has 2"):
        conv2d(_normal(0, 1, 4, 4, 2), _normal(1, 3, 3, 3, 1))
    with pytest.raises(ValueError, match="conv_backend must be 'patches' or 'lax'"):
        conv2d(
            _normal(0, 1, 4, 4, 2),
            _normal(1, 3, 3, 2, 1),
            backend="winograd",
        )


def _window_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@settings(max_examples=6, deadline=None)
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

    @functools.partial(_quick_jit, static_argnums=0)
    def value_and_gradient(pool, x):
        y, pull = jax.vjp(pool, x)
        return y, pull(jnp.arange(y.size, dtype=jnp.float32).reshape(y.shape))[0]

    for ours, theirs in zip(
        value_and_gradient(max_pool_2x2, x),
        value_and_gradient(_window_pool, x),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_dense_gradients_equal_the_plain_products_and_keep_apart_by_lane():
    x, kernel = _normal(0, 3, 5, 7), _normal(1, 3, 4, 7)

    def gradients(product):
        return jax.vmap(jax.grad(lambda x, k: jnp.sum(jnp.sin(product(x, k))), (0, 1)))(
            x, kernel
        )

    for ours, theirs in zip(
        gradients(layers.matmul), gradients(lambda x, k: x @ k.T), strict=True
    ):
        _assert_close(ours, theirs, scale=5.0)


def test_conv_relu_pool_equals_pooling_after_bias_and_relu_to_the_bit():
    x = _normal(0, 2, 8, 8, 3)
    layer = layers.ConvReluPool(4, (3, 3), backend="patches")
    variables = layer.init(jax.random.key(1), x)

    def plain(variables, x):
        params = variables["params"]
        y = conv2d(x, params["Conv_0"]["kernel"], backend="patches")
        return _window_pool(jax.nn.relu(y + params["bias"][None, None, None]))

    np.testing.assert_array_equal(layer.apply(variables, x), plain(variables, x))
    ours, theirs = (
        jax.jit(jax.grad(lambda v, f=f: jnp.sum(jnp.sin(f(v, x)))))(variables)
        for f in (layer.apply, plain)
    )
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        _assert_close(a, b, scale=10.0)


def test_group_norm_equals_flax_forward_and_in_every_gradient():
    x = 2.0 * _normal(0, 3, 4, 5, 64) + 1.0
    variables = {"params": {"scale": 1.0 + _normal(1, 64) / 4, "bias": _normal(2, 64)}}
    results = []
    for layer in (GroupNorm(), nn.GroupNorm(num_groups=32, epsilon=1e-5)):

        def loss(variables, x, layer=layer):
            y = layer.apply(variables, x)
            return jnp.sum(jnp.sin(y)), y

        step = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
        (_, y), gradients = step(variables, x)
        results.append(jax.tree.leaves((y, gradients)))
    for ours, theirs in zip(*results, strict=True):
        _assert_close(ours, theirs, scale=5.0)


def test_group_norm_names_a_channel_count_that_does_not_divide():
    with pytest.raises(ValueError, match="multiple of 32 groups, got 48"):
        GroupNorm().init(jax.random.key(0), _normal(0, 1, 2, 2, 48))
