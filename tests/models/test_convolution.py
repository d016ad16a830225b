"""Convolution as a matrix product against XLA's own."""

import functools

import jax
import jax.numpy as jnp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from layer_checks import assert_close, normal, quick_jit

from fedsvp_jax.models.kernels import conv2d

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
        max(draw(st.integers(1, 9)), 1 if padding == "SAME" else k - sum(pad))
        for k, pad in zip(kernel_size, pads, strict=True)
    ]
    return (
        (draw(_small), *sides, draw(_small)),
        (*kernel_size, draw(st.integers(1, 4))),
        (draw(_small), draw(_small)),
        padding,
    )


def _both(jit, shape, kernel_size, strides, padding):
    """What each set of kernels finds: the result, and a loss's gradients."""
    x = normal(0, *shape)
    height, width, features = kernel_size
    kernel = normal(1, height, width, shape[-1], features)
    kernel = kernel / (height * width * shape[-1]) ** 0.5

    def loss(x, kernel, kernels):
        y = conv2d(x, kernel, strides=strides, padding=padding, kernels=kernels)
        return jnp.sum(jnp.sin(y)), y

    for kernels in ("cpu", "tpu"):
        of_kernels = functools.partial(loss, kernels=kernels)
        step = jit(jax.value_and_grad(of_kernels, (0, 1), has_aux=True))
        (_, y), gradients = step(x, kernel)
        yield y, *gradients


@settings(max_examples=8, deadline=None, derandomize=True)
@given(case=_convolutions())
@example(case=((1, 1, 1, 3), (2, 2, 1), (1, 1), ((4, 4), (4, 4))))  # far from it
def test_patches_equal_lax_convolution_forward_and_in_both_gradients(case):
    assert_close(*_both(quick_jit, *case), scale=20.0)


@pytest.mark.parametrize(
    "case",
    [
        ((4, 28, 28, 1), (5, 5, 32), (1, 1), "SAME"),
        ((4, 14, 14, 32), (5, 5, 64), (1, 1), "SAME"),
        ((2, 32, 32, 64), (3, 3, 128), (2, 2), ((1, 1), (1, 1))),
        ((2, 32, 32, 64), (1, 1, 128), (2, 2), "VALID"),
        ((2, 4, 4, 512), (3, 3, 512), (1, 1), ((1, 1), (1, 1))),
    ],
)
def test_patches_equal_lax_convolution_at_the_models_own_shapes(case):
    for ours, theirs in zip(*_both(jax.jit, *case), strict=True):
        assert_close(ours, theirs, scale=float(jnp.max(jnp.abs(theirs))))


def test_conv2d_names_a_channel_mismatch():
    with pytest.raises(ValueError, match="kernel takes 3 input channels, x has 2"):
        conv2d(normal(0, 1, 4, 4, 2), normal(1, 3, 3, 3, 1), kernels="cpu")
