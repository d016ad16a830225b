"""`training.c`, compiled for this machine when it is first needed, and called.

JAX draws first weights and noise, so they are those of the registered code; the steps
are the same sums in another order.
"""

import ctypes
import functools
import pathlib
import subprocess
import tempfile

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.structs import Array

HIDDEN, STEPS, LEARNING_RATE, MOMENTUM = 16, 60, 0.1, 0.9
_BLOCK = 8  # rows that the program takes at a time
_LANES = 16  # columns of a vector; also HIDDEN


@functools.cache
def _program() -> ctypes.CDLL:
    source = pathlib.Path(__file__).with_name("training.c")
    target = pathlib.Path(tempfile.mkdtemp()) / "training.so"
    options = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
    subprocess.run(["gcc", *options, str(source), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def packed(
    first: Array, first_bias: Array, last: Array, last_bias: Array, *, empty: float
) -> Array:
    """(..., d + 18, 16) from the four arrays of weights, or of noise.

    `empty` fills the last bias beyond the classes.
    """
    beyond = _LANES - last.shape[-1]
    none = [(0, 0)] * (last.ndim - 2)
    return jnp.concatenate(
        [
            first,
            first_bias[..., None, :],
            jnp.pad(last, [*none, (0, 0), (0, beyond)]),
            jnp.pad(last_bias, [*none, (0, beyond)], constant_values=empty)[
                ..., None, :
            ],
        ],
        -2,
    )


@functools.partial(jax.jit, static_argnames=("num_inputs", "num_classes"))
def starts(keys: Array, *, num_inputs: int, num_classes: int) -> Array:
    """(M, d + 18, 16): first weights, drawn as `small_models` and `networks` do."""
    scale = jnp.sqrt(2.0 / jnp.array([num_inputs, HIDDEN], jnp.float32))

    def one(key: Array) -> Array:
        first, last = jax.random.split(key)
        return packed(
            scale[0] * jax.random.normal(first, (num_inputs, HIDDEN)),
            jnp.zeros((HIDDEN,)),
            scale[1] * jax.random.normal(last, (HIDDEN, num_classes)),
            jnp.zeros((num_classes,)),
            empty=-1e30,
        )

    return jax.vmap(one)(keys)


@functools.partial(jax.jit, static_argnames=("num_inputs", "num_classes"))
def noises(keys: Array, *, num_inputs: int, num_classes: int) -> Array:
    """(M, STEPS, d + 18, 16): standard Gaussian noise of every step."""
    shapes = (num_inputs, HIDDEN), (HIDDEN,), (HIDDEN, num_classes), (num_classes,)

    def one(key: Array, t: Array) -> Array:
        parts = jax.random.split(jax.random.fold_in(key, t), 4)
        drawn = [
            jax.random.normal(k, shape) for k, shape in zip(parts, shapes, strict=True)
        ]
        return packed(*drawn, empty=0.0)

    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(keys, jnp.arange(STEPS))


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def logits(
    member: np.ndarray,
    pool: tuple[np.ndarray, np.ndarray],
    scale: np.ndarray,
    start: np.ndarray,
    asked: np.ndarray,
    *,
    num_classes: int,
    average: float,
    clip: float = 0.0,
    sigma: np.ndarray | None = None,
    noise: np.ndarray | None = None,
) -> np.ndarray:
    """(lanes, q, classes): of networks trained on the members under each lane.

    Args:
      member: (n,) bool.
      pool: inputs (n, d) float32 and labels (n,) int32.
      scale: (lanes, n) weight of each record in the sum.
      start: (d + 18, 16) first weights; noise: (STEPS, d + 18, 16).
      asked: (q, d) float32.
      average: factor of the sum and of its noise.
      clip: C, 0 for none; sigma: (lanes,).
    """
    rows = np.flatnonzero(member)
    count = max(-(-len(rows) // _BLOCK) * _BLOCK, _BLOCK)
    inputs = np.zeros((count, pool[0].shape[1]), np.float32)
    labels = np.zeros(count, np.int32)
    weights = np.zeros((len(scale), count), np.float32)
    inputs[: len(rows)] = pool[0][rows]
    labels[: len(rows)] = pool[1][rows]
    weights[:, : len(rows)] = scale[:, rows]
    out = np.empty((len(scale), len(asked), num_classes), np.float32)
    _program().train(
        *(ctypes.c_int(one) for one in (len(scale), STEPS, count, inputs.shape[1])),
        ctypes.c_int(num_classes),
        *(_pointer(one) for one in (inputs, labels, weights)),
        ctypes.c_float(clip),
        None if sigma is None else _pointer(sigma),
        _pointer(start),
        None if noise is None else _pointer(noise),
        *(ctypes.c_float(one) for one in (average, LEARNING_RATE, MOMENTUM)),
        ctypes.c_int(len(asked)),
        _pointer(asked),
        _pointer(out),
    )
    return out
