"""Student's t: the 95 % interval of a mean, and tests of many hypotheses at once."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def half_width(std: Any, count: int) -> Any:
    """t_{0.975, n−1} · std / sqrt(n), of any shape; nan for one value.

    Args:
      std: of the n values, with the divisor n − 1.
      count: n.
    """
    from scipy import stats

    return stats.t.ppf(0.975, count - 1) * std / np.sqrt(count)


def holm_adjusted(p_values: Sequence[float]) -> np.ndarray:
    """p-values adjusted for all of them, so that a level is the family's.

    The k-th smallest of m becomes max_{j ≤ k} (m − j + 1) p_(j), at most 1. Nothing is
    assumed about their dependence.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    adjusted = np.asarray(p_values, float)
    order = np.argsort(adjusted)
    larger = adjusted[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(larger).clip(max=1)
    return adjusted
