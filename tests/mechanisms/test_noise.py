"""Clipping a tree as one vector."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.mechanisms import noise


def test_a_narrow_leaf_is_noised_wide_and_rounded_once():
    key = jax.random.key(1)
    wide = {"w": jnp.linspace(-1.0, 1.0, 64).astype(jnp.bfloat16).astype(jnp.float32)}
    narrow = {"w": wide["w"].astype(jnp.bfloat16)}
    expected, told = noise.add_gaussian_noise(wide, 0.5, key=key)
    noised, norm = noise.add_gaussian_noise(narrow, 0.5, key=key)
    assert noised["w"].dtype == jnp.bfloat16
    np.testing.assert_array_equal(noised["w"], expected["w"].astype(jnp.bfloat16))
    assert norm == told


@pytest.mark.hole
@pytest.mark.parametrize("size", [1, 3, 4096, 1_000_003])
def test_a_clipped_vector_is_in_the_ball_without_any_rounding(size: int):
    """The length is computed in float64, of vectors just above and far above it."""
    rng = np.random.default_rng(size)
    leaves = {"a": jnp.asarray([3.0, -0.0]), "b": jnp.asarray([[4.0]])}
    clipped, _ = noise.clip_into_ball(leaves, 2.0)
    np.testing.assert_allclose([clipped["a"][0], clipped["b"][0, 0]], [1.2, 1.6], 3e-6)
    for short in (leaves, jax.tree.map(jnp.zeros_like, leaves)):
        kept, was = noise.clip_into_ball(short, 5.5)
        assert was == 0 and kept["a"].tobytes() == short["a"].tobytes()
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
