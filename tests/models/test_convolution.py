"""Convolution as a matrix product against XLA's own."""

import functools

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from layer_checks import assert_close, normal, quick_jit

from fedsvp_jax.models.kernels import conv2d


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


@pytest.mark.parametrize("number", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_patches_equal_lax_convolution_forward_and_in_both_gradients(number):
    @settings(max_examples=number, deadline=None, derandomize=True)
    @given(case=_convolutions(), seed=st.integers(0, 2**16))
    def check(case, seed):
        shape, (height, width, features), strides, padding = case
        x = normal(seed, *shape)
        kernel = normal(seed + 1, height, width, shape[-1], features)

        @functools.partial(quick_jit, static_argnums=0)
        def value_and_gradients(convolution, x, kernel):
            y, pull = jax.vjp(convolution, x, kernel)
            cotangent = jnp.cos(jnp.arange(y.size, dtype=jnp.float32)).reshape(y.shape)
            return y, *pull(cotangent)

        ours = value_and_gradients(
            lambda x, k: conv2d(x, k, strides=strides, padding=padding, kernels="cpu"),
            x,
            kernel,
        )
        theirs = value_and_gradients(
            lambda x, k: _reference(x, k, strides, padding), x, kernel
        )
        for a, b in zip(ours, theirs, strict=True):
            assert a.shape == b.shape
            assert_close(a, b, scale=20.0)

    check()


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
    x = normal(0, *shape)
    fan_in = kernel_size[0] * kernel_size[1] * shape[-1]
    kernel = normal(1, *kernel_size[:2], shape[-1], kernel_size[2]) / fan_in**0.5
    results = []
    for kernels in ("cpu", "tpu"):

        def loss(x, kernel, kernels=kernels):
            y = conv2d(x, kernel, strides=strides, padding=padding, kernels=kernels)
            return jnp.sum(jnp.sin(y)), y

        (_, y), gradients = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(
            x, kernel
        )
        results.append((y, *gradients))
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs, scale=float(jnp.max(jnp.abs(theirs))))


def test_one_kernel_for_stacked_inputs_gives_each_lane_its_own_gradients():
    x, kernel = normal(0, 3, 2, 6, 6, 4), normal(1, 3, 3, 4, 5)

    def gradients(x):
        return jax.grad(lambda x, k: jnp.sum(conv2d(x, k, kernels="cpu") ** 2), (0, 1))(
            x, kernel
        )

    stacked, one_lane = quick_jit(jax.vmap(gradients))(x), quick_jit(gradients)
    for lane in range(3):
        for ours, theirs in zip(stacked, one_lane(x[lane]), strict=True):
            assert_close(ours[lane], theirs, scale=50.0)


def test_conv2d_names_a_channel_mismatch_and_unknown_kernels():
    with pytest.raises(ValueError, match="kernel takes 3 input channels, x has 2"):
        conv2d(normal(0, 1, 4, 4, 2), normal(1, 3, 3, 3, 1), kernels="cpu")
    with pytest.raises(ValueError, match="kernels must be 'cpu', 'cuda' or 'tpu'"):
        conv2d(
            normal(0, 1, 4, 4, 2),
            normal(1, 3, 3, 2, 1),
            kernels="winograd",
        )


@pytest.mark.parametrize(
    ("channels", "features", "strides", "slices"),
    [
        (1, 16, (1, 1), 3 + 3),  # by windows: across, then down
        (32, 64, (2, 2), 3 + 3),
        (16, 32, (1, 1), 3),  # by rows, and 3 more where partial sums are laid over
    ],
)
def test_windows_are_gathered_with_few_slices(channels, features, strides, slices):
    """Nine slices of an image cost small models a third of their step."""
    x, kernel = normal(0, 2, 8, 8, channels), normal(1, 3, 3, channels, features)
    found = jax.make_jaxpr(lambda x: conv2d(x, kernel, strides=strides, kernels="cpu"))(
        x
    )
    assert str(found).split("dot_general")[0].count(" slice[") == slices
