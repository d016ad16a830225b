"""Student's t: the 95 % interval of the mean of a few values."""

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


def p_value(t: float, degrees: int) -> float:
    """Two-sided p of a t statistic."""
    import scipy.special

    return float(2 * scipy.special.stdtr(degrees, -abs(t)))


def interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The ends of the interval of the mean of two or more values."""
    mean, half = np.mean(values), half_width(np.std(values, ddof=1), len(values))
    return float(mean - half), float(mean + half)
