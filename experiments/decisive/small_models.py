"""Thousands of small networks on subsets of one pool of records, in one program.

A network has one hidden layer of ReLUs. It takes `STEPS` steps of gradient descent with
momentum on the mean cross-entropy of its subset; a network without records keeps its
first weights. All networks share the pool, so that their first layers are one product.
"""

from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.structs import Array

HIDDEN, STEPS, LEARNING_RATE, MOMENTUM = 16, 60, 0.1, 0.9
_SIDE_BY_SIDE = 128  # networks in memory at the same time

Weights: TypeAlias = dict[str, Array]


def _initial(key: Array, num_inputs: int, num_classes: int) -> Weights:
    first, last = jax.random.split(key)
    scale = jnp.sqrt(2.0 / jnp.array([num_inputs, HIDDEN], jnp.float32))
    return {
        "first": scale[0] * jax.random.normal(first, (num_inputs, HIDDEN)),
        "first_bias": jnp.zeros((HIDDEN,)),
        "last": scale[1] * jax.random.normal(last, (HIDDEN, num_classes)),
        "last_bias": jnp.zeros((num_classes,)),
    }


def _logits(weights: Weights, inputs: Array) -> Array:
    hidden = jax.nn.relu(inputs @ weights["first"] + weights["first_bias"][None])
    return hidden @ weights["last"] + weights["last_bias"][None]


def _trained(start: Weights, inputs: Array, labels: Array, member: Array) -> Weights:
    """The network after its steps on the records of `member`, (n,) bool."""
    share = member.astype(jnp.float32)
    share = share / jnp.maximum(jnp.sum(share), 1.0)

    def loss(weights: Weights) -> Array:
        logs = jax.nn.log_softmax(_logits(weights, inputs))
        return -jnp.sum(share * jnp.take_along_axis(logs, labels[:, None], 1)[:, 0])

    def step(_: Array, carry: tuple[Weights, Weights]) -> tuple[Weights, Weights]:
        weights, velocity = carry
        gradient = jax.grad(loss)(weights)
        velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, gradient)
        moved = jax.tree.map(lambda w, v: w - LEARNING_RATE * v, weights, velocity)
        return moved, velocity

    still = jax.tree.map(jnp.zeros_like, start)
    return jax.lax.fori_loop(0, STEPS, step, (start, still))[0]


@partial(jax.jit, static_argnames="num_classes")
def _outputs(
    keys: Array,
    member: Array,
    pool: tuple[Array, Array],
    asked: Array,
    *,
    num_classes: int,
) -> Array:
    def one(key: Array, member: Array) -> Array:
        start = _initial(key, pool[0].shape[1], num_classes)
        return _logits(_trained(start, *pool, member), asked)

    return jax.vmap(one)(keys, member)


def outputs(
    keys: Array,
    member: np.ndarray,
    inputs: np.ndarray,
    labels: np.ndarray,
    asked: np.ndarray,
    *,
    num_classes: int,
) -> np.ndarray:
    """(M, q, classes) float32: logits of M trained networks on the records `asked`.

    Args:
      keys: (M,) of the first weights.
      member: (M, n) bool: which records of the pool each network is trained on.
      inputs, labels: (n, d) float32 and (n,) int32, the pool.
      asked: (q, d) float32.
      num_classes: outputs of a network.
    """
    pool = jnp.asarray(inputs, jnp.float32), jnp.asarray(labels, jnp.int32)
    questions = jnp.asarray(asked, jnp.float32)
    # One shape for all calls: the rest of the last call repeats the first network.
    places = np.arange(-(-len(member) // _SIDE_BY_SIDE) * _SIDE_BY_SIDE)
    rows = np.where(places < len(member), places, 0).reshape(-1, _SIDE_BY_SIDE)
    logits = [
        _outputs(
            keys[part],
            jnp.asarray(member[part]),
            pool,
            questions,
            num_classes=num_classes,
        )
        for part in rows
    ]
    return np.concatenate(jax.device_get(logits))[: len(member)]
