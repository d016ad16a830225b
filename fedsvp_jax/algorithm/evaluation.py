"""Accuracy and loss of a model on examples, in batches of one shape."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedsvp_jax.data import preprocessing
from fedsvp_jax.devices import lanes
from fedsvp_jax.structs import Array, Examples, Model, Params


class Score(NamedTuple):
    """A model's score on a set of examples."""

    accuracy: Array  # () float32 in [0, 1]
    loss: Array  # () float32: mean cross-entropy in nats


def batch_sums(
    model: Model, params: Params, stats: Params, inputs: Array, labels: Array
) -> tuple[Array, Array]:
    """Per example: is it right (b,) int32, and its cross-entropy (b,) float32."""
    logits, _ = model.apply(
        params, stats, preprocessing.normalize(inputs), train=False, key=None
    )
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return (jnp.argmax(logits, -1) == labels).astype(jnp.int32), losses


def held_out_accuracy(
    model: Model,
    params: Params,
    stats: Params,
    examples: Examples,
    indices: Array,
    count: Array,
    *,
    batch_size: int,
    lane_axes: tuple[str, ...],
) -> Array:
    """Accuracy on the first `count` of `indices` (v,): the coalition's utility.

    Returns 0 for a client without validation examples (no evidence, no utility).
    """
    padded = jnp.pad(indices, (0, -indices.shape[0] % batch_size))
    num_batches = lanes.largest(-(-count // batch_size), lane_axes)

    def step(batch: Array, right: Array) -> Array:
        start = batch * batch_size
        rows = jax.lax.dynamic_slice_in_dim(padded, start, batch_size)
        hits, _ = batch_sums(
            model, params, stats, examples.inputs[rows], examples.labels[rows]
        )
        counted = start + jnp.arange(batch_size, dtype=jnp.int32) < count
        return right + jnp.sum(jnp.where(counted, hits, 0))

    right = jax.lax.fori_loop(0, num_batches, step, jnp.zeros((), jnp.int32))
    return right.astype(jnp.float32) / jnp.maximum(count, 1).astype(jnp.float32)


def evaluate(
    model: Model,
    params: Params,
    stats: Params,
    test: Examples,
    *,
    batch_size: int,
    devices: lanes.Devices,
) -> Score:
    """Score on the whole test set, its batches dealt over the devices."""
    num_examples = test.labels.shape[0]
    num_batches = -(-num_examples // batch_size)

    def batch_score(batch: Array) -> tuple[tuple[Array, Array], None]:
        position = batch * batch_size + jnp.arange(batch_size, dtype=jnp.int32)
        rows = jnp.minimum(position, num_examples - 1)
        hits, losses = batch_sums(
            model, params, stats, test.inputs[rows], test.labels[rows]
        )
        counted = position < num_examples
        right = jnp.sum(jnp.where(counted, hits, 0))
        return (right, jnp.sum(jnp.where(counted, losses, jnp.float32(0.0)))), None

    (right, loss), _ = lanes.map_lanes(
        batch_score,
        num_batches,
        jax.lax.optimization_barrier(jnp.int32(num_batches)),
        chunk_size=1,
        devices=devices,
    )
    return Score(
        accuracy=right.astype(jnp.float32) / num_examples,
        loss=loss / num_examples,
    )
