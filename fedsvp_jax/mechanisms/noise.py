"""Gaussian noise on a pytree, and clipping a pytree as one vector."""

import jax
import jax.numpy as jnp

from fedsvp_jax.core import prng
from fedsvp_jax.core.float32 import ROUNDOFF
from fedsvp_jax.core.structs import Array, Number, Params
from fedsvp_jax.core.tree import cut, is_finite, l2_norm, num_parameters, where

# A changed tree, with () float32: whether it was clipped, or the norm of its noise.
Measured = tuple[Params, Array]


def clip_by_l2_norm(tree: Params, bound: Number) -> Measured:
    """The tree as one vector x, shrunk to x / max(1, ‖x‖/bound).

    Returns:
      The tree (dtypes kept; the same bits where nothing was to clip) and whether
      it was clipped, () float32 in {0, 1}.
    """
    bound = jnp.float32(bound)
    scale, clipped = shrinkage(l2_norm(tree), bound)
    shrunk = jax.tree.map(lambda leaf: leaf * scale.astype(leaf.dtype), tree)
    return shrunk, clipped.astype(jnp.float32)


def shrinkage(norms: Array, bound: Number) -> tuple[Array, Array]:
    """Factors that shorten to the bound what is longer, and whether each is."""
    clipped = norms > bound
    return jnp.where(clipped, bound / jnp.where(clipped, norms, 1.0), 1.0), clipped


def clip_into_ball(tree: Params, bound: Number) -> Measured:
    """The tree of `clip_by_l2_norm`, or 0 where it or its norm is not finite.

    So every tree ends in the ball, which a claim about all data sets needs: there is
    data on which training overflows, and an upload that is not finite would tell it.

    The length of what is returned, computed without rounding, is at most the bound: a
    tree is shrunk to (1 − 32u)·bound. The norm is off by 24u (`tree.l2_norm`), and the
    scale and its product by u each, as is that smaller bound.
    """
    inner = jnp.float32(bound) * jnp.float32(1 - 32 * ROUNDOFF)
    shrunk, clipped = clip_by_l2_norm(tree, inner)
    finite = is_finite(tree)
    return where(finite, shrunk), jnp.where(finite, clipped, jnp.float32(1))


def _gaussian(key: Array, std: Array, *, size: int) -> Array:
    """(size,) float32 of N(0, std²), zeros at std 0.

    Drawn in a branch of its own: whatever reads the noise afterwards would else be
    fused with the draw, each reader drawing it anew.
    """
    return jax.lax.cond(
        std > 0,
        lambda: std * prng.normal(key, size),
        lambda: jnp.zeros(size, jnp.float32),
    )


def add_gaussian_noise(tree: Params, std: Number, *, key: Array) -> Measured:
    """x + N(0, std² I_d), with the tree as one vector of d numbers.

    One draw for all leaves: a draw per leaf is the larger part of what a round takes
    to compile (BUILD_NOTES.md, "The noise of an upload is one draw"). At std 0 the
    leaves keep their bits (x + 0 would turn −0 into +0). The sum is in float32; leaves
    narrower than that are rounded once, and keep their dtypes. The key is consumed.

    Returns:
      The noised tree and the noise's L2 norm, () float32, before that rounding.
    """
    std = jnp.asarray(std, jnp.float32)
    noise = _gaussian(key, std, size=num_parameters(tree))
    noised = jax.tree.map(
        lambda noisy, leaf: jnp.where(std > 0, noisy, leaf),
        add_vector(tree, noise),
        tree,
    )
    return noised, l2_norm(noise)


def add_vector(tree: Params, vector: Array) -> Params:
    """The tree plus a vector (d,) float32, cut into the leaves in their order.

    The sum is in float32; leaves narrower than that are rounded once.
    """
    return jax.tree.map(
        lambda leaf, part: (leaf.astype(jnp.float32) + part).astype(leaf.dtype),
        tree,
        cut(vector, tree),
    )
