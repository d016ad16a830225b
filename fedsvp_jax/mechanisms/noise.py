"""Gaussian noise on a pytree, and clipping a pytree as one vector."""

import jax
import jax.numpy as jnp

from fedsvp_jax.structs import Array, Params
from fedsvp_jax.tree import l2_norm


def clip_by_l2_norm(tree: Params, bound: Array | float) -> tuple[Params, Array]:
    """The tree as one vector x, shrunk to x / max(1, ‖x‖/bound).

    Returns:
      The tree (dtypes kept; the same bits where nothing was to clip) and whether
      it was clipped, () float32 in {0, 1}.
    """
    bound = jnp.asarray(bound, jnp.float32)
    norm = l2_norm(tree)
    clipped = norm > bound
    scale = jnp.where(clipped, bound / jnp.where(clipped, norm, 1.0), 1.0)
    shrunk = jax.tree.map(lambda leaf: leaf * scale.astype(leaf.dtype), tree)
    return shrunk, clipped.astype(jnp.float32)


def _gaussian(key: Array, std: Array, *, shape: tuple[int, ...]) -> Array:
    """N(0, std²), zeros at std 0.

    Drawn in a branch of its own: whatever reads the noise afterwards would else be
    fused with the draw, each reader drawing it anew.
    """
    return jax.lax.cond(
        std > 0,
        lambda: std * jax.random.normal(key, shape, std.dtype),
        lambda: jnp.zeros(shape, std.dtype),
    )


def add_gaussian_noise(
    tree: Params, std: Array | float, *, key: Array
) -> tuple[Params, Array]:
    """x + N(0, std² I), leaf by leaf with keys folded by leaf index.

    At std 0 the leaves keep their bits (x + 0 would turn −0 into +0). Leaves
    narrower than float32 are noised in float32 and rounded once.

    Args:
      tree: float leaves; dtypes are kept.
      std: () standard deviation per coordinate, >= 0.
      key: a PRNG key, consumed here.

    Returns:
      The noised tree and the noise's L2 norm, () float32, before that rounding.
    """
    std = jnp.asarray(std, jnp.float32)
    leaves, treedef = jax.tree.flatten(tree)
    noised, square = [], jnp.zeros((), jnp.float32)
    for index, leaf in enumerate(leaves):
        wide = leaf.dtype if leaf.dtype.itemsize >= 4 else jnp.dtype(jnp.float32)
        noise = _gaussian(
            jax.random.fold_in(key, index), std.astype(wide), shape=leaf.shape
        )
        noisy = (leaf.astype(wide) + noise).astype(leaf.dtype)
        noised.append(jnp.where(std > 0, noisy, leaf))
        square = square + jnp.sum(jnp.square(noise)).astype(jnp.float32)
    return jax.tree.unflatten(treedef, noised), jnp.sqrt(square)
