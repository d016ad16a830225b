"""Clipping a tree as one vector."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.mechanisms import noise


def test_the_leaves_are_one_vector():
    tree = {"a": jnp.asarray([3.0]), "b": jnp.asarray([[4.0]])}
    clipped, _ = noise.clip_by_l2_norm(tree, 2.0)
    np.testing.assert_allclose([clipped["a"][0], clipped["b"][0, 0]], [1.2, 1.6])


def test_a_short_or_zero_tree_keeps_its_bits():
    for values in ([0.3, -0.0], [0.0, 0.0]):
        tree = jnp.asarray(values)
        clipped, was = noise.clip_by_l2_norm(tree, 2.0)
        assert np.asarray(clipped).tobytes() == np.asarray(tree).tobytes()
        assert was == 0


def test_the_noise_is_std_times_one_normal_draw_in_the_order_of_the_leaves():
    key, std = jax.random.key(4), 0.3
    tree = {"a": jnp.ones((2000,)), "b": jnp.full((30, 100), -2.0)}
    noised, told = noise.add_gaussian_noise(tree, std, key=key)
    drawn = std * np.asarray(jax.random.normal(key, (5000,)))
    np.testing.assert_allclose(noised["a"], 1.0 + drawn[:2000], atol=1e-6)
    np.testing.assert_allclose(
        noised["b"], -2.0 + drawn[2000:].reshape(30, 100), atol=1e-6
    )
    np.testing.assert_allclose(told, np.linalg.norm(drawn), rtol=1e-5)
    assert abs(np.std(drawn) - std) < 5 * std / np.sqrt(2 * drawn.size)


def test_without_noise_every_bit_stays_and_the_norm_is_zero():
    tree = {"w": jnp.asarray([-0.0, 0.0, 1.5])}
    noised, told = noise.add_gaussian_noise(tree, 0.0, key=jax.random.key(0))
    assert np.asarray(noised["w"]).tobytes() == np.asarray(tree["w"]).tobytes()
    assert told == 0


def test_a_narrow_leaf_is_noised_wide_and_rounded_once():
    key = jax.random.key(1)
    wide = {"w": jnp.linspace(-1.0, 1.0, 64).astype(jnp.bfloat16).astype(jnp.float32)}
    narrow = {"w": wide["w"].astype(jnp.bfloat16)}
    expected, told = noise.add_gaussian_noise(wide, 0.5, key=key)
    noised, norm = noise.add_gaussian_noise(narrow, 0.5, key=key)
    assert noised["w"].dtype == jnp.bfloat16
    np.testing.assert_array_equal(noised["w"], expected["w"].astype(jnp.bfloat16))
    assert norm == told


@pytest.mark.parametrize("spoilt", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_ends_in_the_ball_too(spoilt: float):
    """3e38 is finite, and its square is not."""
    tree = {"a": jnp.asarray([spoilt]), "b": jnp.asarray([0.5, -0.0])}
    inside, was = noise.clip_into_ball(tree, 2.0)
    assert not any(np.any(np.asarray(leaf)) for leaf in inside.values()) and was == 1


@pytest.mark.hole
@pytest.mark.parametrize("size", [1, 3, 4096, 1_000_003])
def test_a_clipped_vector_is_in_the_ball_without_any_rounding(size: int):
    """The length is computed in float64, of vectors just above and far above it."""
    rng = np.random.default_rng(size)
    short = jnp.asarray([0.3, -0.0])
    assert np.array_equal(noise.clip_into_ball(short, 2.0)[0], short)
    one, _ = noise.clip_into_ball(jnp.ones((1, 1)), 1.0)  # without any rounding
    assert one == 1 - 32 * 2.0**-24
    for draw, over in itertools.product(("normal", "equal", "steep"), (1e-7, 3.0)):
        vector = {
            "normal": lambda: rng.standard_normal(size),
            "equal": lambda: np.full(size, 0.7),
            "steep": lambda: np.exp(-np.arange(size) / 9.0),
        }[draw]()
        tree = (vector * 0.3 * (1 + over) / np.linalg.norm(vector)).astype(np.float32)
        inside, _ = jax.jit(noise.clip_into_ball)(jnp.asarray(tree), 0.3)
        length = np.linalg.norm(np.asarray(inside, np.float64))
        assert 0.3 * (1 - 3e-6) <= length <= np.float32(0.3), (draw, over)
