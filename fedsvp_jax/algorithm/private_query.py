"""The private query: what a client's records of the private attribute say to a model.

With `--sensitivity=attribute_records` the server sends a model w and m, the average of
the last round's answers. A client uploads two things:

    w_O - w   local training on its public records O alone, each step with the gradient
              grad loss_O + lambda m; loss_O lowers the private classes' logits by tau
    g + noise the answer, g = 1/|P| sum_{x in P} clip(grad loss(w; x), C)

The server averages both: the first moves w, the second is the next round's m. A private
step between the rounds would come after public training has forgotten P; m is there in
every step, as a control variate is (SCAFFOLD, Karimireddy et al. 2020).

Neighbours differ in one record of P. Given w and m, w_O is the same for them, to the
bit: the order of batches reads which places of the list hold public records, never the
records of P. So only g differs, by at most 2C/|P| (docs/privacy.md, P13). A gradient of
P is taken in evaluation mode: no dropout, and the broadcast statistics.
"""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from fedsvp_jax.algorithm.evaluation import outputs_for
from fedsvp_jax.devices import lanes
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.structs import Array, Examples, Model, Params

# What of a leaf a query is about: all, nothing, or some rows (a layer's outputs).
Part: TypeAlias = bool | tuple[int, ...]
Asked: TypeAlias = tuple[Part, ...]  # by leaf

_SIDE_BY_SIDE = 32  # records whose gradients are in memory at the same time


def divided(
    attributes: Array, num_rows: Array, *, private_attribute: int
) -> tuple[Array, Array]:
    """(m,) bool each: which rows are public, and which are the private attribute's.

    Args:
      attributes: (m,) int32, of the client's rows and their padding.
      num_rows: () int32: the first so many are the client's.
      private_attribute: the private one's index.
    """
    held = jnp.arange(attributes.shape[0], dtype=jnp.int32) < num_rows
    is_private = attributes == private_attribute
    return held & ~is_private, held & is_private


def chosen(tree: Params, asked: Asked) -> list[Array]:
    """The numbers that a query is about, in the order of the tree's leaves."""
    leaves = zip(jax.tree.leaves(tree), asked, strict=True)
    return [
        leaf if part is True else leaf[jnp.asarray(part)]
        for leaf, part in leaves
        if part
    ]


def replaced(tree: Params, new: list[Array], asked: Asked) -> Params:
    """The tree with `new` in the place of the numbers that a query is about."""
    leaves, treedef = jax.tree.flatten(tree)
    fresh = iter(new)

    def one(leaf: Array, part: Part) -> Array:
        if not part:
            return leaf
        if part is True:
            return next(fresh)
        return leaf.at[jnp.asarray(part)].set(next(fresh))

    return jax.tree.unflatten(
        treedef, [one(leaf, part) for leaf, part in zip(leaves, asked, strict=True)]
    )


def public_model(
    model: Model, asked: Asked, private_classes: tuple[int, ...], margin: Array | float
) -> Model:
    """The model as public training sees it.

    The logits of the private classes are lower by the margin. Where a query is about
    some rows of a leaf, these rows have no gradient.
    """
    rows = tuple(part if isinstance(part, tuple) else False for part in asked)

    def apply(params: Params, *args: Array, **named: Any) -> tuple[Array, Params]:
        still = [jax.lax.stop_gradient(part) for part in chosen(params, rows)]
        logits, stats = model.apply(replaced(params, still, rows), *args, **named)
        if not private_classes:
            return logits, stats
        return logits.at[:, jnp.asarray(private_classes)].add(-margin), stats

    return model._replace(apply=apply, gradient_scale=None)


def remembered(
    params: Params, answer: list[Array], asked: Asked, *, weight: Array | float
) -> Params:
    """lambda m as a tree like the model's, 0 where the query is not about it."""
    zeros = jax.tree.map(jnp.zeros_like, params)
    return replaced(zeros, [weight * leaf for leaf in answer], asked)


def mean_clipped_gradient(
    model: Model,
    params: Params,
    stats: Params,
    examples: Examples,
    rows: Array,
    member: Array,
    *,
    l2_norm_clip: Array | float,
    asked: Asked,
    lane_axes: tuple[str, ...],
) -> list[Array]:
    """g = 1/|P| sum_{x in P} clip(grad loss(w; x), C), 0 where P is empty.

    Args:
      params: w.
      rows: (m,) rows of `examples`.
      member: (m,) bool: which of them are P.
      l2_norm_clip: C, of a record's gradient as one vector.
      asked: what of `params` the gradient is taken with respect to.
      lane_axes: names of the enclosing vmap axes.

    Returns:
      The gradients of `chosen`, float32.
    """
    weights = chosen(params, asked)
    count = jnp.sum(member.astype(jnp.int32))
    first = jnp.argsort(~member, stable=True)
    padded = jnp.pad(rows[first], (0, -rows.shape[0] % _SIDE_BY_SIDE))

    def loss(weights: list[Array], row: Array) -> Array:
        whole = replaced(params, weights, asked)
        outputs = outputs_for(model, whole, stats, examples.inputs[row][None])
        return model.loss(outputs, examples.wanted[row][None])[0]

    def one(row: Array) -> list[Array]:
        return noise.clip_into_ball(jax.grad(loss)(weights, row), l2_norm_clip)[0]

    def step(batch: Array, total: list[Array]) -> list[Array]:
        start = batch * _SIDE_BY_SIDE
        here = jax.lax.dynamic_slice_in_dim(padded, start, _SIDE_BY_SIDE)
        place = start + jnp.arange(_SIDE_BY_SIDE, dtype=jnp.int32)
        counted = (place < count).astype(jnp.float32)
        found = jax.vmap(one)(here)
        return [
            old + jnp.tensordot(counted, gradient, axes=1)
            for old, gradient in zip(total, found, strict=True)
        ]

    batches = lanes.largest(-(-count // _SIDE_BY_SIDE), lane_axes)
    zeros = [jnp.zeros_like(leaf) for leaf in weights]
    total = jax.lax.fori_loop(0, batches, step, zeros)
    size = jnp.maximum(count, 1).astype(jnp.float32)
    return [leaf / size for leaf in total]
