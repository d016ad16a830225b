"""The private query: a gradient from a client's records of the private attribute.

With `--clipping=attribute_records` the server sends a model w and m, the average of
the last round's answers. A client uploads two things:

    w_O - w   local training on its public records O alone, each step with the gradient
              grad loss_O + lambda m; loss_O lowers the private classes' logits by tau
    g + noise the answer, g = 1/|P| sum_{x in P} clip(grad loss(w; x), C)

The server averages both: the first moves w, the second is the next round's m. A private
step between the rounds would come after public training has forgotten P; m is there in
every step, as a control variate is (SCAFFOLD, Karimireddy et al. 2020).

Neighbours differ in one record of P. Given w and m, w_O is the same for them, to the
bit: the order of batches reads which places of the list hold public records, never the
records of P. So only g differs, by at most 2C/|P| (docs/appendix, P13). A gradient of
P is taken in evaluation mode: no dropout, and the broadcast statistics.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax.core.float32 import ROUNDOFF, add_compensated, reciprocal, weighted_sum
from fedsvp_jax.core.structs import Array, Model, Number, Params, Rows, Weights, iota
from fedsvp_jax.devices import lanes
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.models.evaluation import outputs_for

# The part of a leaf that a query is about: all, nothing, or some rows (outputs).
Part = bool | tuple[int, ...]
QueryParts = tuple[Part, ...]  # by leaf; () without a query
Answer = list[Array]  # to a query, by leaf
_Sums = tuple[Answer, Answer]  # totals, and what they lost

_SIDE_BY_SIDE = 32  # records whose gradients are in memory at the same time


def divided(
    attributes: Array, num_rows: Array, *, private_attribute: int
) -> tuple[Array, Array]:
    """(m,) bool each: which rows are public, and which are the private attribute's."""
    valid = iota(len(attributes)) < num_rows
    is_private = attributes == private_attribute
    return valid & ~is_private, valid & is_private


def chosen(tree: Params, query_parts: QueryParts) -> Params:
    """The numbers that a query is about, in a list; without a query the tree itself."""
    if not query_parts:
        return tree
    leaves = zip(jax.tree.leaves(tree), query_parts, strict=True)
    return [
        leaf if part is True else leaf[jnp.asarray(part)]
        for leaf, part in leaves
        if part
    ]


def replaced(tree: Params, new: Answer, query_parts: QueryParts) -> Params:
    """The tree with `new` in the place of the numbers that a query is about."""
    leaves, treedef = jax.tree.flatten(tree)
    fresh = iter(new)

    def replace(leaf: Array, part: Part) -> Array:
        if not part:
            return leaf
        if part is True:
            return next(fresh)
        return leaf.at[jnp.asarray(part)].set(next(fresh))

    return jax.tree.unflatten(
        treedef,
        [replace(leaf, part) for leaf, part in zip(leaves, query_parts, strict=True)],
    )


def public_model(
    model: Model,
    query_parts: QueryParts,
    private_classes: tuple[int, ...],
    margin: Number,
) -> Model:
    """The model as public training sees it.

    The logits of the private classes are lower by the margin. Where a query is about
    some rows of a leaf, these rows have no gradient.
    """
    rows = tuple(part if isinstance(part, tuple) else False for part in query_parts)

    def apply(params: Params, *args: Array, **kwargs: Any) -> tuple[Array, Params]:
        still = [jax.lax.stop_gradient(part) for part in chosen(params, rows)]
        logits, stats = model.apply(replaced(params, still, rows), *args, **kwargs)
        if not private_classes:
            return logits, stats
        return logits.at[:, jnp.asarray(private_classes)].add(-margin), stats

    return model._replace(apply=apply, gradient_scale=None)


def remembered(
    params: Params, answer: Answer, query_parts: QueryParts, *, weight: Number
) -> Params:
    """lambda m as a tree like the model's, 0 where the query is not about it."""
    zeros = optax.tree.zeros_like(params)
    return replaced(zeros, [weight * leaf for leaf in answer], query_parts)


def mean_clipped_gradient(
    model: Model,
    broadcast: Weights,
    client_rows: Rows,
    *,
    l2_norm_clip: Number,
    query_parts: QueryParts,
    lane_axes: tuple[str, ...],
) -> Answer:
    """g = 1/|P| sum_{x in P} clip(grad loss(w; x), C), 0 where P is empty.

    Two lists that differ in one record give g at most 2C/|P| apart (C/|P| where the
    record is left out). That holds of the float32 numbers: `reserve_of_records`.

    Args:
      broadcast: w.
      client_rows: the client's rows; those that count are P.
      l2_norm_clip: C, of a record's gradient as one vector.
      query_parts: the parts of w that the gradient is taken with respect to.
      lane_axes: names of the enclosing vmap axes.

    Returns:
      The gradients of `chosen`, float32.
    """
    params, stats = broadcast
    examples, rows, member = client_rows
    weights = chosen(params, query_parts)
    count = jnp.sum(member)
    size = jnp.maximum(count, 1).astype(jnp.float32)
    bound = jnp.float32(l2_norm_clip) / (1 + reserve_of_records(size))
    first = jnp.argsort(~member, stable=True)
    padded = jnp.pad(rows[first], (0, -len(rows) % _SIDE_BY_SIDE))

    def loss(weights: Answer, row: Array) -> Array:
        model_params = replaced(params, weights, query_parts)
        outputs = outputs_for(model, model_params, stats, examples.inputs[row][None])
        return model.loss(outputs, examples.loss_targets[row][None])[0]

    def step(batch: Array, sums: _Sums) -> _Sums:
        start = batch * _SIDE_BY_SIDE
        batch_rows = jax.lax.dynamic_slice_in_dim(padded, start, _SIDE_BY_SIDE)
        place = start + iota(_SIDE_BY_SIDE)
        counted = (place < count).astype(jnp.float32)

        gradients = jax.vmap(
            lambda row: noise.clip_into_ball(jax.grad(loss)(weights, row), bound)[0]
        )(batch_rows)
        batch_sums = [weighted_sum(counted, leaf) for leaf in gradients]
        compensated = [
            add_compensated(*now) for now in zip(*sums, batch_sums, strict=True)
        ]
        return [total for total, _ in compensated], [lost for _, lost in compensated]

    batches = lanes.largest(-(-count // _SIDE_BY_SIDE), lane_axes)
    zeros = [jnp.zeros_like(leaf) for leaf in weights]
    total, lost = jax.lax.fori_loop(0, batches, step, (zeros, zeros))
    share = reciprocal(size)
    return [(value + rest) * share for value, rest in zip(total, lost, strict=True)]


def reserve_of_records(number: Number) -> Number:
    """ρ: part of C by which the float32 mean of n records' gradients may be off.

        ρ = 2^-14 + nu(6 + n²/2^33), u = 2^-24

    Each record's gradient is in one sum of 32, of height 5, and that is where two
    neighbours part: 2·(5 + 1)·32u < 2^-15 of C together. Adding up n/32 such sums costs
    (n/32)²u² of nC in each world, total + lost one u of it, its product with the
    rounded 1/n two more: (6 + n²/2^33)nu. A client of 10,000 records clips to
    C/1.0036, one of 500 to C/1.0002.
    """
    second = (number / 2**16) ** 2 / 2
    return 2.0**-14 + ROUNDOFF * number * (6 + second)
