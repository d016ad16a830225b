"""Small networks trained with a clip per record and Gaussian noise, many side by side.

The architecture, steps and learning rate are those of `small_models`. In each step

    g = (sum_i m_i a_i C min(1, C/|g_i|)/C g_i + sigma C N(0, I)) / (n/2)

m_i tells whether record i is a member, a_i is its factor of protection, |g_i| the norm
of its gradient. Record i contributes at most a_i C to the sum, which gets noise of
sigma C: it has the noise multiplier sigma/a_i in every one of the `STEPS` steps.
"""

from collections.abc import Iterator

import jax
import numpy as np

from ..decisive import compiled

CLIP = 1.0  # C
_SIDE_BY_SIDE = 16  # networks whose noise is in memory at the same time


def outputs(
    keys: jax.Array,
    member: np.ndarray,
    pool: tuple[np.ndarray, np.ndarray, np.ndarray],
    asked: np.ndarray,
    *,
    sigma: np.ndarray,
    num_classes: int,
) -> Iterator[np.ndarray]:
    """Per network (lanes, q, classes) float32: its logits on the records `asked`.

    All lanes of a network have the same first weights and the same noise.

    Args:
      keys: (M,) of first weights and noise; M is a multiple of 16.
      member: (M, n) bool: which records of the pool each network is trained on.
      pool: inputs (n, d) float32, labels (n,) int32, factors a (lanes, n) float32.
      asked: (q, d) float32.
      sigma: (lanes,) the noise's standard deviation over the clip; 0 is no noise.
      num_classes: outputs of a network.
    """
    inputs, labels, factors = pool
    shape = {"num_inputs": inputs.shape[1], "num_classes": num_classes}
    for first in range(0, len(member), _SIDE_BY_SIDE):
        pairs = jax.vmap(jax.random.split)(keys[first : first + _SIDE_BY_SIDE])
        starts = np.asarray(compiled.starts(pairs[:, 0], **shape))
        noises = np.asarray(compiled.noises(pairs[:, 1], **shape))
        for k, (start, noise) in enumerate(zip(starts, noises, strict=True)):
            yield compiled.logits(
                member[first + k],
                (inputs, labels),
                factors,
                start,
                asked,
                num_classes=num_classes,
                average=2.0 / len(inputs),
                clip=CLIP,
                sigma=sigma.astype(np.float32),
                noise=noise,
            )
