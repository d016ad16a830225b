"""Clipping a tree as one vector."""

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.mechanisms import noise


def test_three_four_clipped_to_two_is_1_2_and_1_6():
    clipped, was = noise.clip_by_l2_norm({"w": jnp.asarray([3.0, 4.0])}, 2.0)
    np.testing.assert_allclose(clipped["w"], [1.2, 1.6], rtol=1e-6)
    assert was == 1


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


def test_leaves_get_draws_of_their_own():
    tree = {"a": jnp.zeros((50,)), "b": jnp.zeros((50,))}
    noised, _ = noise.add_gaussian_noise(tree, 1.0, key=jax.random.key(0))
    assert not np.any(np.asarray(noised["a"]) == np.asarray(noised["b"]))
