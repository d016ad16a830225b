"""Bounds of a column that are bought: two private quantiles.

The bounds are numbers of a public grid, of four digits each, 0 and from 1e-4 to 9.999e9
on both sides of it. Beyond each bound shall lie

    k = ⌈2 ln(m/β)/ε⌉,  m numbers in the grid, β = 0.001

of the column's values. A number c of the grid misses that by

    d(c) = max(#{x < c} − k, k − #{x ≤ c}, 0)

from below, and likewise from above. The exponential mechanism draws c in proportion to
exp(−ε·d(c)/2): beyond all values, where d = k, with probability β at most where the
grid has a number with d = 0. One row
moves d by 1 at most, whether it is replaced, added or left out, so that each bound is
ε-DP (P22). Source: Smith 2011 (private quantiles by the exponential mechanism).
"""

import math

import numpy as np

from .discrete_gaussian import Words, exponential_draw, system_words

_POWERS, _DIGITS = range(-7, 7), range(1000, 10_000)
_POSITIVE = [float(f"{digits}e{power}") for power in _POWERS for digits in _DIGITS]
GRID = np.array([*(-number for number in reversed(_POSITIVE)), 0.0, *_POSITIVE])
_RISK = 0.001  # β


def rows_beyond(epsilon: float) -> int:
    """k: values that lie beyond a bound of so much ε, about."""
    return math.ceil(2 * math.log(len(GRID) / _RISK) / epsilon)


def private_bounds(
    values: np.ndarray,
    epsilon: float,
    within: tuple[float, float] = (-math.inf, math.inf),
    words: Words = system_words,
) -> tuple[float, float]:
    """(low, high), each ε-DP.

    Args:
      values: (n,) float64, at most one of each row or person; NaN counts as none.
      epsilon: of each bound.
      within: the least and the largest number that the bounds may be.
      words: the source of randomness.
    """
    grid, rank = GRID[(within[0] <= GRID) & (within[1] >= GRID)], rows_beyond(epsilon)
    present, ends = values[~np.isnan(values)], []
    for sign in (1, -1):
        ordered, numbers = np.sort(sign * present), np.sort(sign * grid)
        below, through = (
            np.searchsorted(ordered, numbers, side) for side in ("left", "right")
        )
        distances = np.maximum(below - rank, rank - through).clip(0)
        ends.append(sign * float(numbers[exponential_draw(distances, epsilon, words)]))
    low, high = sorted(ends)
    return low, high
