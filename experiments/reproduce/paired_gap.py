"""The gap between two mechanisms, from runs that are paired by seed.

A seed fixes the partition, the first weights, the cohorts and the random numbers of the
noise, so the difference of two runs with one seed varies less than either run.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsvp_jax import student


class PairedGap(NamedTuple):
    """Mean difference a − b over the seeds, with 95 % intervals."""

    num_seeds: int
    mean: float
    t_interval: tuple[float, float]  # Student's t on the differences
    bootstrap_interval: tuple[float, float]  # percentiles over resampled seeds

    @property
    def contains_zero(self) -> bool:
        """Whether the t interval contains 0, so that the sign of the gap is open."""
        low, high = self.t_interval
        return low <= 0 <= high


def paired_gap(a: Sequence[float], b: Sequence[float]) -> PairedGap:
    """The gap a − b; the i-th numbers of both belong to one seed.

    The bootstrap's seed is fixed: equal numbers give equal intervals.

    Raises:
      ValueError: a and b differ in length, or hold fewer than two numbers.
    """
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(
            "a and b must hold two or more numbers each and equally many, got "
            f"{len(a)} and {len(b)}"
        )
    gaps = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if np.ptp(gaps) == 0:  # no spread: scipy's intervals would be nan
        level = (float(gaps[0]), float(gaps[0]))
        t_interval = bootstrap_interval = level
    else:
        import scipy.stats

        drawn = scipy.stats.bootstrap(
            (gaps,),
            np.mean,
            confidence_level=0.95,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        t_interval = student.interval(gaps)
        bootstrap_interval = (float(drawn.low), float(drawn.high))
    return PairedGap(
        num_seeds=len(gaps),
        mean=float(gaps.mean()),
        t_interval=t_interval,
        bootstrap_interval=bootstrap_interval,
    )
