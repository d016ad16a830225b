"""Where the centre draws the line: 2-means of the scores, exactly.

In one dimension the best two clusters are a cut of the sorted scores, so trying the
n − 1 cuts finds the optimum, inside the compiled step and without a start to draw.
scikit-learn's KMeans finds the same on the host from random starts.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.structs import Array


class TwoMeans(NamedTuple):
    """The centres of the two clusters; equal where all scores are."""

    low: Array  # () float32
    high: Array  # () float32


def two_means(scores: Array) -> TwoMeans:
    """The two clusters of least squared distance to their centres.

    A cut after k of n sorted scores leaves the within-cluster squares least where
    k(n − k)·(mean of the rest − mean of the first k)² is largest.

    Args:
      scores: (n,) float, n >= 2.

    Raises:
      ValueError: fewer than two scores.
    """
    scores = jnp.asarray(scores, jnp.float32)
    count = scores.shape[0] if scores.ndim == 1 else 0
    if count < 2:
        raise ValueError(f"scores must be at least two in one row, got {scores.shape}")
    ordered = jnp.sort(scores)
    start = ordered[0]  # equal scores give exact zeros
    sums = jnp.cumsum(ordered - start)
    below = jnp.arange(1, count, dtype=jnp.float32)
    above = count - below
    low = sums[:-1] / below
    high = (sums[-1] - sums[:-1]) / above
    best = jnp.argmax(below * above * jnp.square(high - low))
    return TwoMeans(low=start + low[best], high=start + high[best])


def two_means_threshold(scores: Array) -> Array:
    """() float32: the mean of the two centres; scores below it are rejected.

    Source: lazy influence (arXiv 2205.11518), sec. 3.4 (iii).
    """
    found = two_means(scores)
    return (found.low + found.high) / 2


def required_gap(
    num_votes: int, flip_probability: Array | float, share: Array | float
) -> Array:
    """How far apart the centres must lie for anybody to be rejected, () float32.

        share·2(1 − f)·T + 2·sqrt(2/π)·s, s² = T·(1 − (1 − f)²); 0 for share = 0

    2-means always splits. T votes that all agree are sums of a standard deviation s by
    the randomised response alone, and 2-means cuts a normal sample into centres
    2·sqrt(2/π)·s apart. Opposite unanimous votes are 2(1 − f)·T apart: a share of that
    has to be there on top. 0 is as published, without a minimum.

    Args:
      num_votes: T, votes a contributor gets.
      flip_probability: f.
      share: in [0, 1].
    """
    kept = 1.0 - jnp.asarray(flip_probability, jnp.float32)
    share = jnp.asarray(share, jnp.float32)
    noise = jnp.sqrt(num_votes * (1.0 - jnp.square(kept)))
    gap = share * 2.0 * kept * num_votes + 2.0 * math.sqrt(2.0 / math.pi) * noise
    return jnp.where(share > 0, gap, 0.0)


class Filtration(NamedTuple):
    """Shares in [0, 1]; nan where there was nothing to share."""

    recall: float  # of the corrupted, how many were rejected
    precision: float  # of the rejected, how many are corrupted
    accuracy: float  # of all, how many were judged rightly
    f1: float  # 2 · both right / (corrupted + rejected)


def filtration(rejected: np.ndarray, corrupted: np.ndarray) -> Filtration:
    """Recall, precision, accuracy and F1 of two masks (M,).

    Source: lazy influence (arXiv 2205.11518), sec. 4.1.
    """
    rejected, corrupted = np.asarray(rejected, bool), np.asarray(corrupted, bool)
    hits = int(np.sum(rejected & corrupted))

    def share(part: int, whole: int) -> float:
        return part / whole if whole else float("nan")

    return Filtration(
        recall=share(hits, int(corrupted.sum())),
        precision=share(hits, int(rejected.sum())),
        accuracy=float(np.mean(rejected == corrupted)),
        f1=share(2 * hits, int(corrupted.sum() + rejected.sum())),
    )
