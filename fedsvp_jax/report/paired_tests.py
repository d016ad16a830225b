"""Student's test of differences that are paired by seed, adjusted for many rows."""

import statistics
from collections.abc import Sequence

from fedsvp_jax import student


def paired_p(one: dict[int, float], other: dict[int, float]) -> float | None:
    """Two-sided p of the differences by seed; None below two or without a spread.

        t = mean(g) / (std(g)/sqrt(S)),  g_s = one_s - other_s,  S - 1 degrees

    Args:
      one, other: a number per seed.
    """
    gaps = [one[seed] - other[seed] for seed in one if seed in other]
    if len(gaps) < 2 or statistics.stdev(gaps) == 0:
        return None
    return student.p_value(
        statistics.fmean(gaps) / (statistics.stdev(gaps) / len(gaps) ** 0.5),
        len(gaps) - 1,
    )


def holm_adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted for all rows of the table (Holm 1979), so that 0.05 is the whole's."""
    known = sorted((p, n) for n, p in enumerate(p_values) if p is not None)
    found, largest = list(p_values), 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        found[place] = largest
    return found
