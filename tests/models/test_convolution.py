"""Convolution as products, Winograd's too, and as groups, against XLA's own."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from layer_checks import assert_close, quick_jit

from fedsvp_jax.models import winograd
from fedsvp_jax.models.kernels import Kernels, conv2d

_small = st.integers(1, 3)
_even = st.sampled_from([2, 4, 6, 10])
_side = st.integers(1, 9)
KERNELS: tuple[Kernels, ...] = ("cpu", "cuda", "tpu")
xlas = functools.partial(conv2d, kernels="tpu")


def with_gradients(convolution, x, kernel, cotangent):
    y, pull = jax.vjp(convolution, x, kernel)
    return y, *pull(cotangent)


def drawn(shape, kernel_size, dtype="float32"):
    """An image, and a kernel that keeps its scale."""
    rng = np.random.default_rng(0)
    height, width, features = kernel_size
    kernel = rng.normal(size=(height, width, shape[-1], features))
    kernel = kernel / (height * width * shape[-1]) ** 0.5
    return jnp.asarray(rng.normal(size=shape), dtype), jnp.asarray(kernel, dtype)


@st.composite
def _convolutions(draw):
    return (
        (draw(_small), draw(_side), draw(_side), draw(_small)),
        (draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(1, 4))),
        draw(_small),
    )


@settings(max_examples=8, deadline=None, derandomize=True)
@given(case=_convolutions())
@example(case=((2, 5, 6, 3), (3, 2, 2), 1))  # by rows
@example(case=((2, 14, 14, 32), (5, 5, 64), 1))
@example(case=((2, 16, 16, 64), (3, 3, 128), 2))
def test_patches_equal_lax_convolution_forward_and_in_both_gradients(case):
    shape, kernel_size, stride = case
    x, kernel = drawn(shape, kernel_size)
    pads = [((side - 1) // 2, side // 2) for side in kernel_size[:2]]
    lax_conv = functools.partial(
        jax.lax.conv_general_dilated,
        window_strides=(stride, stride),
        padding=pads,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    cotangent = jnp.cos(lax_conv(x, kernel))
    cpus, gpus, tpus, theirs = (
        quick_jit(functools.partial(with_gradients, conv))(x, kernel, cotangent)
        for conv in (
            *(functools.partial(conv2d, stride=stride, kernels=k) for k in KERNELS),
            lax_conv,
        )
    )
    for ours in (cpus, gpus, tpus):
        assert_close(ours, theirs, scale=20.0)


@pytest.mark.parametrize("by_client", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize(("channels", "stride"), [(1, 1), (5, 2)])
def test_a_gpus_gradients_of_stacked_clients_are_xlas_own(by_client, channels, stride):
    """Also the gradient of a gradient, which gradient inversion takes."""
    rng = np.random.default_rng(1)

    def clients(axis, *shape):
        lead = () if axis is None else (3,)
        return jnp.asarray(rng.normal(size=(*lead, *shape)), jnp.float32)

    x = clients(by_client[0], 2, 6, 5, channels)
    kernel = clients(by_client[1], 3, 2, channels, 4)

    def leakage(kernels, x, kernel):
        def loss(kernel):
            y = conv2d(x, kernel, stride=stride, kernels=kernels)
            return jnp.sum(jnp.sin(y))

        return jnp.sum(jnp.cos(jax.grad(loss)(kernel)))

    ours, theirs = (
        quick_jit(
            jax.vmap(
                jax.value_and_grad(functools.partial(leakage, kernels), (0, 1)),
                in_axes=by_client,
            )
        )(x, kernel)
        for kernels in ("cuda", "tpu")
    )
    assert_close(ours, theirs, scale=20.0)


@pytest.mark.hole
def test_a_gpu_gets_the_filters_gradient_in_groups_that_cudnn_has():
    """Groups of channels with whole images for windows ran as forward convolutions."""
    x = jax.ShapeDtypeStruct((3, 2, 8, 8, 16), jnp.float32)
    kernel = jax.ShapeDtypeStruct((3, 5, 5, 16, 32), jnp.float32)

    def loss(kernel, x):
        return jnp.sum(jnp.square(conv2d(x, kernel, kernels="cuda")))

    text = jax.jit(jax.vmap(jax.grad(loss))).lower(kernel, x).as_text()
    assert text.count("batch_group_count = 3") == 1
    few = jax.ShapeDtypeStruct((3, 2, 8, 8, 3), jnp.float32)
    kernel = jax.ShapeDtypeStruct((3, 5, 5, 3, 32), jnp.float32)
    text = jax.jit(jax.vmap(jax.grad(loss))).lower(kernel, few).as_text()
    assert "stablehlo.convolution" not in text


@settings(max_examples=5, deadline=None, derandomize=True)
@given(
    shape=st.tuples(st.integers(1, 5), _even, _even, st.integers(1, 4)),
    features=st.integers(1, 4),
    side=st.sampled_from([3, 5]),
    most_bytes=st.sampled_from([1, 5_000, 10**9]),
)
def test_winograd_is_lax_convolution_forward_and_in_both_gradients(
    shape, features, side, most_bytes
):
    """However many parts the batch is cut into, full or not."""
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "_TILE_BYTES", most_bytes)
        x, kernel = drawn(shape, (side, side, features), "float64")
        told = x, kernel, jnp.cos(xlas(x, kernel))
        ours, theirs = (
            quick_jit(functools.partial(with_gradients, convolution))(*told)
            for convolution in (winograd.conv2d, xlas)
        )
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "kernel_size", "most"),
    [
        pytest.param((7, 32, 32, 64), (3, 3, 64), 3e-6, marks=pytest.mark.slow),
        ((2, 4, 4, 512), (3, 3, 512), 3e-6),
        ((3, 14, 14, 32), (5, 5, 64), 3e-5),
    ],
)
def test_float32_differs_by_rounding_at_the_models_own_shapes(shape, kernel_size, most):
    """In two parts, the second filled up, and in one."""
    x, kernel = drawn(shape, kernel_size)
    told = x, kernel, jnp.cos(xlas(x, kernel))
    with jax.enable_x64(True):
        exact = jax.jit(functools.partial(with_gradients, xlas))(
            *[jnp.asarray(array, jnp.float64) for array in told]
        )
    ours = jax.jit(functools.partial(with_gradients, winograd.conv2d))(*told)
    for a, b in zip(ours, exact, strict=True):
        error = np.max(np.abs(np.asarray(a) - np.asarray(b)))
        assert error < most * np.max(np.abs(b))


def products(shape, features, sides=(3, 3), dtype="float32", **options):
    """How many matrix products a loop's body holds in conv2d's program."""
    options = {"kernels": "cpu"} | options
    x = jax.ShapeDtypeStruct(shape, dtype)
    kernel = jax.ShapeDtypeStruct((*sides, shape[-1], features), dtype)
    found = jax.make_jaxpr(functools.partial(conv2d, **options))(x, kernel)
    return str(found).count("dot_general[")


def test_conv2d_takes_winograd_where_it_pays():
    assert products((8, 8, 8, 64), 64) == 16
    assert products((50, 14, 14, 32), 64, (5, 5)) == 36  # leaf_cnn's
    for shape, features, options in [
        ((8, 8, 8, 32), 64, {}),
        ((8, 8, 8, 64), 32, {}),
        ((7, 8, 8, 64), 64, {}),  # few tiles
        ((8, 9, 8, 64), 64, {}),
        ((8, 8, 9, 64), 64, {}),
        ((8, 8, 8, 64), 64, {"dtype": "bfloat16"}),
        ((8, 8, 8, 64), 64, {"stride": 2}),
        ((50, 14, 14, 16), 64, {"sides": (5, 5)}),
        ((50, 14, 14, 32), 16, {"sides": (5, 5)}),
        ((8, 8, 8, 64), 64, {"sides": (3, 5)}),
        ((8, 8, 8, 64), 64, {"sides": (5, 3)}),
        ((8, 8, 8, 64), 64, {"sides": (7, 7)}),
    ]:
        assert products(shape, features, **options) == 1
    assert products((8, 8, 8, 64), 64, kernels="tpu") == 0
