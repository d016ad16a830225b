"""The centre's decision: 2-means of the scores.

In one dimension the best two clusters are separated by one cut of the sorted scores.
Trying all n − 1 cuts finds the optimum inside the compiled step, without the random
starts of an iterative 2-means.
"""

import math

import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, Number


def two_means(scores: Array) -> tuple[Array, Array]:
    """The means, () float32, of two clusters: the lower and the upper, or equal ones.

    The clusters have the least sum of squared distances to their means.

    Cutting n sorted scores after the first k gives the least sum where
    k(n − k)·(mean of the rest − mean of the first k)² is largest.

    Args:
      scores: (n,) float, n >= 2.

    Raises:
      ValueError: fewer than two scores.
    """
    scores = jnp.asarray(scores, jnp.float32)
    count = len(scores)
    if count < 2:
        raise ValueError(f"scores must be at least two numbers, got {count}")
    ordered = jnp.sort(scores)
    start = ordered[0]  # equal scores give exact zeros
    sums = jnp.cumsum(ordered - start)
    below = jnp.arange(1, count, dtype=jnp.float32)
    above = count - below
    low = sums[:-1] / below
    high = (sums[-1] - sums[:-1]) / above
    best = jnp.argmax(below * above * jnp.square(high - low))
    return start + low[best], start + high[best]


def required_gap(num_votes: int, flip_probability: Number, share: Number) -> Array:
    """() float32: nobody is rejected unless the cluster means are this far apart.

        share·2(1 − f)·T + 2·sqrt(2/π)·s, s² = T·(1 − (1 − f)²); 0 for share = 0

    2-means splits any scores, also those of honest contributors only. Where all T true
    votes agree, randomised response alone gives the scores the standard deviation s,
    and 2-means cuts a normal sample into clusters whose means are 2·sqrt(2/π)·s apart.
    Contributors with unanimous opposite votes are 2(1 − f)·T apart in the mean; `share`
    of that distance is required on top. The paper requires no gap (share = 0).

    Args:
      num_votes: T, the votes on each contributor.
      flip_probability: f.
      share: in [0, 1].
    """
    unflipped = 1.0 - jnp.float32(flip_probability)
    share = jnp.float32(share)
    noise = jnp.sqrt(num_votes * (1.0 - jnp.square(unflipped)))
    gap = share * 2.0 * unflipped * num_votes + 2.0 * math.sqrt(2.0 / math.pi) * noise
    return jnp.where(share > 0, gap, 0.0)
