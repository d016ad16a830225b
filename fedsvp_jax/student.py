"""Student's t: the 95 % interval of a mean, and tests of many hypotheses at once."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np


def quantile(degrees: Any) -> Any:
    """t_{0.975} by degrees of freedom, of any shape."""
    import scipy.special

    return scipy.special.stdtrit(degrees, 0.975)


def half_width(std: Any, count: int) -> Any:
    """t_{0.975, n−1} · std / sqrt(n), of any shape; nan for one value.

    Args:
      std: of the n values, with the divisor n − 1.
      count: n.
    """
    return quantile(count - 1) * std / np.sqrt(count)


def paired_p(one: dict[int, float], other: dict[int, float]) -> float | None:
    """Two-sided p of the differences by seed; None below two or without a spread.

        t = mean(g) / (std(g)/sqrt(S)),  g_s = one_s - other_s,  S - 1 degrees

    Args:
      one, other: a number per seed.
    """
    import scipy.special

    gaps = [one[seed] - other[seed] for seed in one if seed in other]
    if len(gaps) < 2 or statistics.stdev(gaps) == 0:
        return None
    error = statistics.stdev(gaps) / len(gaps) ** 0.5
    t = statistics.fmean(gaps) / error
    return float(2 * scipy.special.stdtr(len(gaps) - 1, -abs(t)))


def holm_adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted for all of them, so that a level is the family's.

    The k-th smallest of m becomes max_{j ≤ k} (m − j + 1) p_(j), at most 1. Nothing is
    assumed about their dependence; None stays None and is not counted.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    known = sorted((p, n) for n, p in enumerate(p_values) if p is not None)
    found, largest = list(p_values), 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        found[place] = largest
    return found
