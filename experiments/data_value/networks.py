"""Small networks trained with a clip per record and Gaussian noise, many side by side.

The architecture, steps and learning rate are those of `small_models`. In each step

    g = (sum_i m_i a_i C min(1, C/|g_i|)/C g_i + sigma C N(0, I)) / (n/2)

m_i tells whether record i is a member, a_i is its factor of protection, |g_i| the norm
of its gradient. Record i contributes at most a_i C to the sum, which gets noise of
sigma C: it has the noise multiplier sigma/a_i in every one of the `STEPS` steps.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.structs import Array

from ..decisive.small_models import HIDDEN, LEARNING_RATE, MOMENTUM, STEPS

CLIP = 1.0  # C
_SIDE_BY_SIDE = 64

Weights = tuple[Array, Array, Array, Array]


def _initial(key: Array, num_inputs: int, num_classes: int) -> Weights:
    first, last = jax.random.split(key)
    scale = jnp.sqrt(2.0 / jnp.array([num_inputs, HIDDEN], jnp.float32))
    return (
        scale[0] * jax.random.normal(first, (num_inputs, HIDDEN)),
        jnp.zeros((HIDDEN,)),
        scale[1] * jax.random.normal(last, (HIDDEN, num_classes)),
        jnp.zeros((num_classes,)),
    )


def _logits(weights: Weights, inputs: Array) -> Array:
    hidden = jax.nn.relu(inputs @ weights[0] + weights[1][None])
    return hidden @ weights[2] + weights[3][None]


def _clipped_sum(
    weights: Weights, inputs: Array, one_hot: Array, factors: Array
) -> Weights:
    """sum_i factors_i min(1, C/|g_i|) g_i, without making the gradients one by one."""
    before = inputs @ weights[0] + weights[1][None]
    hidden = jax.nn.relu(before)
    top = jax.nn.softmax(hidden @ weights[2] + weights[3][None]) - one_hot
    down = jnp.where(before > 0, top @ weights[2].T, 0.0)
    norms = jnp.sqrt(
        (jnp.sum(jnp.square(inputs), 1) + 1.0) * jnp.sum(jnp.square(down), 1)
        + (jnp.sum(jnp.square(hidden), 1) + 1.0) * jnp.sum(jnp.square(top), 1)
    )
    scale = (factors * jnp.minimum(1.0, CLIP / jnp.maximum(norms, 1e-12)))[:, None]
    down, top = scale * down, scale * top
    return inputs.T @ down, jnp.sum(down, 0), hidden.T @ top, jnp.sum(top, 0)


@partial(jax.jit, static_argnames="num_classes")
def _outputs(
    keys: Array,
    member: Array,
    pool: tuple[Array, Array, Array],
    asked: Array,
    sigma: Array,
    *,
    num_classes: int,
) -> Array:
    inputs, labels, factors = pool
    one_hot = jax.nn.one_hot(labels, num_classes)

    def one(key: Array, member: Array) -> Array:
        first, noise = jax.random.split(key)
        start = _initial(first, inputs.shape[1], num_classes)

        def step(t: Array, carry: tuple[Weights, Weights]) -> tuple[Weights, Weights]:
            weights, velocity = carry
            total = _clipped_sum(weights, inputs, one_hot, factors * member)
            keys = jax.random.split(jax.random.fold_in(noise, t), 4)
            gradient = [
                (g + sigma * CLIP * jax.random.normal(k, g.shape))
                * (2.0 / inputs.shape[0])
                for g, k in zip(total, keys, strict=True)
            ]
            velocity = jax.tree.map(
                lambda v, g: MOMENTUM * v + g, velocity, tuple(gradient)
            )
            return jax.tree.map(
                lambda w, v: w - LEARNING_RATE * v, weights, velocity
            ), velocity

        still = jax.tree.map(jnp.zeros_like, start)
        weights, _ = jax.lax.fori_loop(0, STEPS, step, (start, still))
        return _logits(weights, asked)

    return jax.vmap(one)(keys, member)


def outputs(
    keys: Array,
    member: np.ndarray,
    pool: tuple[np.ndarray, np.ndarray, np.ndarray],
    asked: np.ndarray,
    *,
    sigma: float,
    num_classes: int,
) -> np.ndarray:
    """(M, q, classes) float32: logits of M trained networks on the records `asked`.

    Args:
      keys: (M,) of first weights and noise; M is a multiple of 64.
      member: (M, n) bool: which records of the pool each network is trained on.
      pool: inputs (n, d) float32, labels (n,) int32, factors a (n,) float32.
      asked: (q, d) float32.
      sigma: the noise's standard deviation over the clip; 0 is no noise.
      num_classes: outputs of a network.
    """
    arrays = tuple(jnp.asarray(one) for one in pool)
    logits = [
        _outputs(
            keys[start : start + _SIDE_BY_SIDE],
            jnp.asarray(member[start : start + _SIDE_BY_SIDE], jnp.float32),
            arrays,
            jnp.asarray(asked),
            jnp.float32(sigma),
            num_classes=num_classes,
        )
        for start in range(0, len(member), _SIDE_BY_SIDE)
    ]
    return np.concatenate(jax.device_get(logits))
