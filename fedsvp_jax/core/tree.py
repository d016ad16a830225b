"""Pytrees of parameters: norm, size, finiteness, slices of a leading axis, hash."""

import contextlib
import contextvars
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .float32 import ROUNDOFF, pairwise_sum, staged_sum
from .structs import Array, Params

_IN_STAGES = contextvars.ContextVar("norms are added up in stages", default=False)


@contextlib.contextmanager
def norms(*, in_stages: bool) -> Iterator[None]:
    """Whatever is traced within it adds up its norms in stages, or in a tree.

    `federated_round` alone enters it, with the choice of its plan.
    `lax.platform_dependent` would leave a branch in a CPU's programs.
    """
    token = _IN_STAGES.set(in_stages)
    try:
        yield
    finally:
        _IN_STAGES.reset(token)


def cell_of(tree: Params, index: Any) -> Params:
    """The part at `index` of a pytree with a leading axis, of cells or of clients.

    None as index gives a leading axis of one.
    """
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(trees: Iterable[Params]) -> Params:
    """Equal pytrees along a new leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def where(condition: Array, new: Params, old: Params | None = None) -> Params:
    """The leaves of `new` where the condition () holds, else those of `old`, or 0."""
    if old is None:
        return jax.tree.map(lambda leaf: jnp.where(condition, leaf, 0), new)
    return jax.tree.map(partial(jnp.where, condition), new, old)


def params_sha256(params: Params) -> str:
    """SHA-256 over every leaf's path, type, shape and bytes, in tree order."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_flatten_with_path(jax.device_get(params))[0]:
        array = np.ascontiguousarray(leaf)
        name = jax.tree_util.keystr(path)
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def num_parameters(params: Params) -> int:
    """The number of trained scalars: sum of the leaves' sizes."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def num_bytes(tree: Params) -> int:
    """The bytes of all leaves; shapes suffice."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def cut(vector: Array, like: Params) -> Params:
    """A vector of d numbers in the shapes of a tree's leaves, in their order."""
    leaves, treedef = jax.tree.flatten(like)
    ends = list(itertools.accumulate(leaf.size for leaf in leaves))
    parts = zip(jnp.split(vector, ends[:-1]), leaves, strict=True)
    return jax.tree.unflatten(treedef, [part.reshape(x.shape) for part, x in parts])


def l2_norm(tree: Params) -> Array:
    """() float32: the L2 norm of all leaves as one vector.

    For up to 2^31 numbers in 2^8 leaves the result is at least (1 − 24u) of the exact
    norm (u = 2^-24), and unless added up in stages (`norms`) at most (1 + 24u) of it: a
    square is rounded once and added to 40 times, and a root halves its argument's
    error. There is no product of matrices, whose factors a GPU or TPU may round.
    """
    leaves = [leaf.astype(jnp.float32) for leaf in jax.tree.leaves(tree) if leaf.size]
    if _IN_STAGES.get():
        return _in_stages(leaves)
    squares = [pairwise_sum(jnp.square(leaf).ravel()) for leaf in leaves]
    return jnp.sqrt(pairwise_sum(jnp.stack([jnp.float32(0), *squares])))


def _in_stages(leaves: list[Array]) -> Array:
    """The norm, never less than it is, and (H + 16)u more at most, but for H²u².

    The root is (1 − (H/2 + 2)u) of it at least, since (1 − u)^k ≥ 1 − ku.
    """
    sums = [staged_sum(jnp.square(leaf)) for leaf in leaves]
    height = len(sums) + max((height for _, height in sums), default=0)
    total = jnp.sum(jnp.stack([jnp.float32(0), *(value for value, _ in sums)]))
    return jnp.sqrt(total) * np.float32(1 / (1 - (height / 2 + 8) * ROUNDOFF))


def has_finite_sum(tree: Params, *, in_stages: bool) -> Array:
    """() bool: no number is NaN or infinite, nor the sum beyond float32."""
    if in_stages:
        tree = [staged_sum(leaf)[0] for leaf in jax.tree.leaves(tree)]
    return jnp.isfinite(optax.tree.sum(tree))


def is_finite(tree: Params) -> Array:
    """() bool: no number is NaN or infinite, nor the L2 norm beyond float32."""
    return jnp.isfinite(l2_norm(tree))
