"""Thousands of small networks on subsets of one pool of records, in one program.

A network has one hidden layer of ReLUs. It takes `STEPS` steps of gradient descent with
momentum on the mean cross-entropy of its subset; a network without records keeps its
first weights. All networks share the pool, so that their first layers are one product.
"""

import jax
import jax.numpy as jnp
import numpy as np

from . import compiled
from .compiled import STEPS as STEPS

_SIDE_BY_SIDE = 128  # networks whose first weights are drawn at the same time


def outputs(
    keys: jax.Array,
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
    pool = inputs.astype(np.float32), labels.astype(np.int32)
    asked = asked.astype(np.float32)
    drawn = np.asarray(jax.random.key_data(keys))
    unique, which = np.unique(drawn, axis=0, return_inverse=True)
    places = np.arange(-(-len(unique) // _SIDE_BY_SIDE) * _SIDE_BY_SIDE)
    # One shape for all calls: the rest of the last call repeats the first network.
    rows = np.where(places < len(unique), places, 0).reshape(-1, _SIDE_BY_SIDE)
    starts = np.concatenate(
        [
            compiled.starts(
                jax.random.wrap_key_data(jnp.asarray(unique[part])),
                num_inputs=inputs.shape[1],
                num_classes=num_classes,
            )
            for part in rows
        ]
    )
    logits = np.empty((len(member), len(asked), num_classes), np.float32)
    for k, (chosen, start) in enumerate(zip(member, which, strict=True)):
        logits[k] = compiled.logits(
            chosen,
            pool,
            np.full((1, len(chosen)), 1 / max(chosen.sum(), 1)),
            starts[start],
            asked,
            num_classes=num_classes,
            average=1.0,
        )[0]
    return logits
