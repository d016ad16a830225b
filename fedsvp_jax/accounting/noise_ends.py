"""Float32's Gaussian noise ends, so that an output may be one neighbour's for certain.

No number of `prng.normal` is beyond c = 9.155. Let two neighbours' d numbers differ by
v in units of the noise's std, ‖v‖ = 1/z. An output that only one of them can send shows
a number of the noise within v_i of its end, which has a chance of at most

    Σ_i Φ(v_i − c) − Φ(−c)  ≤  φ(c)·√d/z + Φ(1/z − c)

A difference that is spread over all numbers has the first term (Σ v_i ≤ √d/z), one in a
single number the second: Φ(v − c) − Φ(−c) − φ(c)v grows faster than v² while v ≤ c − 1.
The gaps between the numbers, and the rounding of the sum, are an assumption of every
claim about such noise.
"""

import math

from fedsvp_jax.core.prng import NORMAL_END

_NUMBERS = 2.0**40  # of noise that one client draws in a run, at most
_DENSITY = math.exp(-(NORMAL_END**2) / 2) / math.sqrt(2 * math.pi)


def certain_chance(multiplier: float, sums: float, rate: float = 1.0) -> float:
    """The chance that noise of so many sums tells one neighbour for certain; at most 1.

    Args:
      multiplier: z, the least of any sum.
      sums: n; in parts of one where others have more noise, Σ z²/z_t².
      rate: of the sums that a record is in.
    """
    if multiplier * (NORMAL_END - 1) < 1:
        return 1.0 if sums > 0 else 0.0
    single = math.erfc((NORMAL_END - 1 / multiplier) / math.sqrt(2)) / 2
    spread = _DENSITY * math.sqrt(_NUMBERS * sums) / multiplier
    return min(1.0, rate * (spread + sums * single))
