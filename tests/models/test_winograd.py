"""Winograd's convolution against XLA's own."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from layer_checks import quick_jit

from fedsvp_jax.models import winograd
from fedsvp_jax.models.kernels import conv2d
from fedsvp_jax.structs import Array


def reference(x: Array, kernel: Array) -> Array:
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def with_gradients(convolution, x, kernel, cotangent):
    y, pull = jax.vjp(convolution, x, kernel)
    return y, *pull(cotangent)


def drawn(seed: int, shape: tuple[int, ...], features: int, dtype: str):
    """An image, a kernel that keeps its scale, and a gradient by the result."""
    rng = np.random.default_rng(seed)
    channels = shape[-1]
    kernel = rng.normal(size=(3, 3, channels, features)) / (9 * channels) ** 0.5
    arrays = rng.normal(size=shape), kernel, rng.normal(size=(*shape[:3], features))
    return [jnp.asarray(array, dtype) for array in arrays]


_even = st.sampled_from([2, 4, 6, 10])


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 5),
    height=_even,
    width=_even,
    channels=st.integers(1, 4),
    features=st.integers(1, 4),
    most_bytes=st.sampled_from([1, 5_000, 10**9]),
)
def test_winograd_is_lax_convolution_forward_and_in_both_gradients(
    batch, height, width, channels, features, most_bytes
):
    """However many parts the batch is cut into, full or not."""
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "_TILE_BYTES", most_bytes)
        arrays = drawn(0, (batch, height, width, channels), features, "float64")
        ours, theirs = (
            quick_jit(functools.partial(with_gradients, convolution))(*arrays)
            for convolution in (winograd.conv_3x3, reference)
        )
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("batch", "side", "channels"),
    [pytest.param(7, 32, 64, marks=pytest.mark.slow), (2, 4, 512)],
)
def test_float32_differs_by_rounding_at_resnets_own_shapes(batch, side, channels):
    """In two parts, the second filled up, and in one."""
    arrays = drawn(1, (batch, side, side, channels), channels, "float32")
    with jax.enable_x64(True):
        exact = jax.jit(functools.partial(with_gradients, reference))(
            *[jnp.asarray(array, jnp.float64) for array in arrays]
        )
    ours = jax.jit(functools.partial(with_gradients, winograd.conv_3x3))(*arrays)
    for a, b in zip(ours, exact, strict=True):
        error = np.max(np.abs(np.asarray(a) - np.asarray(b)))
        assert error < 3e-6 * np.max(np.abs(b))


def products(shape, features, dtype="float32", **options):
    """How many matrix products a loop's body holds in conv2d's program."""
    options = {"padding": ((1, 1), (1, 1)), "kernels": "cpu"} | options
    x = jax.ShapeDtypeStruct(shape, dtype)
    kernel = jax.ShapeDtypeStruct((3, 3, shape[-1], features), dtype)
    found = jax.make_jaxpr(functools.partial(conv2d, **options))(x, kernel)
    return str(found).count("dot_general[")


def test_conv2d_takes_winograd_where_it_pays():
    assert products((8, 8, 8, 64), 64) == 16
    for shape, features, options in [
        ((8, 8, 8, 32), 64, {}),
        ((8, 8, 8, 64), 32, {}),
        ((7, 8, 8, 64), 64, {}),  # few tiles
        ((8, 9, 8, 64), 64, {}),
        ((8, 8, 9, 64), 64, {}),
        ((8, 8, 8, 64), 64, {"dtype": "bfloat16"}),
        ((8, 8, 8, 64), 64, {"strides": (2, 2)}),
        ((8, 8, 8, 64), 64, {"padding": "VALID"}),
    ]:
        assert products(shape, features, **options) == 1
    assert products((8, 8, 8, 64), 64, kernels="tpu") == 0
