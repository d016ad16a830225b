"""Discrete Gaussian noise on a grid: exact sampler, rounding, modular sums.

N_Z(0, σ²) gives the whole number x a probability in proportion to exp(−x²/(2σ²)).
Floating-point noise leaks through its rounding (Mironov 2012); this noise is drawn in
whole numbers from whole random words, and is added to whole numbers. An upload takes
three steps:

    whole numbers  `rounded`   x/γ to whole numbers, whose norm stays within C/γ
    noise          `discrete_gaussian`   of variance σ², in steps γ
    residues       `wrapped`   modulo 2^b, so that sums may wrap around

Only NumPy is used: simulated and deployed clients run the same code. Every random
number comes from a source of words: `system_words` in deployed clients, `seeded_words`
in simulated ones.

Source: Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), Algorithms 1 to 3.
"""

import math
import os
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

# number -> (number,) uint64, independent and uniform
Words = Callable[[int], np.ndarray]
# (a, m): (n,) uint64 and a whole number; a fraction a/m of [0, 1] for each of n draws
Fractions = tuple[np.ndarray, int]

LARGEST_VARIANCE = 2**52  # of the noise, in steps²: all products then fit 64 bits
_MOST_SCALES = 256  # |x| beyond this many σ is drawn again: less than e^−32000
_DENOMINATOR = 2**20  # of a variance below 2^30
_WORD = 2**64
_AT_ONCE = 2**18  # numbers that are rounded: beside them no long array is needed
_SMOOTHING = 9  # of the variance, in steps²: to e^-170 in its log probabilities (P17)
_FLOAT32_PRODUCT = 1 + Fraction(1, 2**21)  # above the rounding of seven operations


def system_words(number: int) -> np.ndarray:
    """(number,) uint64 from the operating system's entropy, which nobody knows."""
    return np.frombuffer(os.urandom(8 * number), np.uint64).copy()


def seeded_words(*seed: int) -> Words:
    """A source that a seed decides: whoever knows the seed knows the words.

    Philox4x64-10 in counter mode (Salmon et al. 2011), keyed with a hash of the seed:
    whole numbers ≥ 0, for example the words of a JAX key.
    """
    return np.random.Philox(np.random.SeedSequence(seed)).random_raw


def _below(bound: int, number: int, words: Words) -> np.ndarray:
    """(number,) uint64, uniform in [0, bound).

    Words past its last multiple are drawn again.
    """
    if bound == 1:
        return np.zeros(number, np.uint64)
    numbers = words(number)
    last = _WORD - _WORD % bound
    if last < _WORD:
        again = np.flatnonzero(numbers >= np.uint64(last))
        while again.size:
            numbers[again] = words(again.size)
            again = again[numbers[again] >= np.uint64(last)]
    return numbers % np.uint64(bound)


def _bernoulli_exp(
    fractions: Sequence[Fractions], number: int, words: Words
) -> np.ndarray:
    """(number,) bool, true with probability exp(−x), x the product of the fractions.

    Algorithm 1: count the successes of Bernoulli(x/1), Bernoulli(x/2), ... before the
    first failure; true if their number is even. Bernoulli(x/k) is drawn as one factor
    after the other.
    """
    result = np.ones(number, bool)
    active = np.arange(number)
    divisor = 1
    while active.size:
        for place, (above, below) in enumerate(fractions):
            denominator = below * divisor if place == 0 else below
            active = active[_below(denominator, active.size, words) < above[active]]
        result[active] ^= True
        divisor += 1
    return result


def _bernoulli_exp_times(
    times: np.ndarray, fractions: Sequence[Fractions], words: Words
) -> np.ndarray:
    """(n,) bool, true with probability exp(−times·x), x as above."""
    result = np.ones(len(times), bool)
    active = np.flatnonzero(times > 0)
    done = 0
    while active.size:
        factors = [(above[active], below) for above, below in fractions]
        accepted = _bernoulli_exp(factors, active.size, words)
        result[active[~accepted]] = False
        done += 1
        active = active[accepted]
        active = active[times[active] > done]
    return result


def _discrete_laplace(scale: int, number: int, words: Words) -> np.ndarray:
    """Draws of at most `number` int64 with P(x) in proportion to exp(−|x|/scale).

    Algorithm 2 with t = scale and s = 1, without those that it draws again.
    """
    low = _below(scale, number, words)
    low = low[_bernoulli_exp([(low, scale)], number, words)]
    ones = np.ones(low.size, np.uint64)
    high = np.zeros(low.size, np.int64)
    active = np.arange(low.size)
    while active.size:  # exp(−1) again and again: a geometric number
        active = active[_bernoulli_exp([(ones[active], 1)], active.size, words)]
        high[active] += 1
        active = active[high[active] < _MOST_SCALES]
    size = low.astype(np.int64) + scale * high
    negative = _below(2, low.size, words) == 1
    accepted = (high < _MOST_SCALES) & ~(negative & (size == 0))
    return np.where(negative, -size, size)[accepted]


def exponential_draw(distances: np.ndarray, epsilon: float, words: Words) -> int:
    """A place i of P(i) in proportion to exp(−ε'·d_i/2), exact and in whole numbers.

    The exponential mechanism of McSherry and Talwar 2007: ε-DP where a neighbour moves
    every distance by 1 at most. ε'/2 is ε/2 rounded down to a multiple of 2^-20. Places
    are drawn evenly, each kept with probability exp(−ε'·(d_i − min d)/2), until one is.

    Args:
      distances: (m,) int64 d.
      epsilon: ε.
      words: the source of randomness.

    Raises:
      ValueError: ε is below 2^-19 or above 2^33.
    """
    step = math.floor(epsilon * _DENOMINATOR / 2)
    if not 1 <= step <= LARGEST_VARIANCE:
        raise ValueError(f"epsilon must be from 2^-19 to 2^33, got {epsilon:g}")
    whole = -(-step // _DENOMINATOR)  # so that the fraction below is one of [0, 1]
    beyond, number = (distances - distances.min()) * whole, len(distances)
    factor = np.full(number, step, np.uint64), _DENOMINATOR * whole
    while True:
        places = _below(number, number, words).astype(np.int64)
        accepted = _bernoulli_exp_times(beyond[places], [factor], words)
        if accepted.any():
            return int(places[accepted.argmax()])


def discrete_gaussian(
    variance: Fraction | int, number: int, words: Words
) -> np.ndarray:
    """(number,) int64 of N_Z(0, σ²), exact and in whole numbers throughout.

    Algorithm 3: a discrete Laplace number y of scale t = ⌊σ⌋ + 1 is kept with
    probability exp(−(|y| − σ²/t)²/(2σ²)). With σ² = n/m and a = |t·m·|y| − n|, that
    exponent is a²/(2·n·mt²). To keep to 64 bits, a is divided by n and by mt², with
    quotients q, q' and remainders r, r':

        a²/(2·n·mt²) = (q + r/n)(q' + r'/(mt²))/2

    Numbers beyond 256 t are drawn again; their probability is below e^−32000.

    Raises:
      ValueError: a variance that is not > 0, or above `LARGEST_VARIANCE`, or of too
        large a denominator.
    """
    variance = Fraction(variance)
    top, bottom = variance.numerator, variance.denominator
    if variance <= 0:
        raise ValueError(f"variance must be > 0, got {variance}")
    scale = math.isqrt(top // bottom) + 1
    square = bottom * scale**2  # mt², above n
    if square > 2 * LARGEST_VARIANCE:
        raise ValueError(
            f"variance must be at most {LARGEST_VARIANCE} with a denominator of at "
            f"most {_DENOMINATOR} below 2^30, got {variance}"
        )
    result = np.empty(number, np.int64)
    filled = 0
    while filled < number:
        candidates = _discrete_laplace(scale, number - filled, words)
        gap = np.abs(np.abs(candidates) * (scale * bottom) - top)
        by_top, rest_top = np.divmod(gap, top)
        by_square, rest_square = np.divmod(gap, square)
        ones = np.ones(candidates.size, np.uint64)
        over_top = (rest_top.astype(np.uint64), 2 * top)
        over_square = (rest_square.astype(np.uint64), square)
        half = (ones, 2)
        accepted = _bernoulli_exp([over_top, over_square], candidates.size, words)
        for times, fractions in (
            (by_top * by_square, [half]),
            (by_square, [over_top]),
            (by_top, [half, over_square]),
        ):
            accepted &= _bernoulli_exp_times(
                np.where(accepted, times, 0), fractions, words
            )
        candidates = candidates[accepted]
        result[filled : filled + candidates.size] = candidates
        filled += candidates.size
    return result


def step_variance(std: float, step: float) -> Fraction:
    """σ² = (std/γ)² + 9 as a fraction that the sampler takes, rounded up.

    So discrete noise hides no less than a Gaussian of z·Δ (docs/appendix, P17), of
    which std is the float32 product: 2^-21 covers the rounding of seven operations.
    """
    exact = (Fraction(float(std)) * _FLOAT32_PRODUCT / Fraction(float(step))) ** 2
    exact += _SMOOTHING
    below = 1 if exact >= 2**30 else _DENOMINATOR
    return Fraction(math.ceil(exact * below), below)


def rounded(
    values: np.ndarray, *, step: float, norm_bound: float, words: Words
) -> np.ndarray:
    """(d,) int64: x/γ at random up or down, so that the mean is x/γ, and then clipped.

    Rounding can make a vector longer. Where Σq² > (C/γ)², numbers go back by one
    towards zero, those first that rounding had moved away from it the farthest, until
    Σq² ≤ (C/γ)². Hence ‖γq‖ ≤ C exactly, and a sensitivity that rests on C alone stays
    what it was. That clip is compared in whole numbers. An x that exceeds C is shrunk
    to it before; C/γ is at most 2^30.

    Raises:
      ValueError: a value that is not finite.
    """
    scaled = np.divide(values, float(step), dtype=np.float64)
    if not np.all(np.isfinite(scaled)):
        raise ValueError("values must be finite to be put on a grid")
    limit = math.floor((Fraction(float(norm_bound)) / Fraction(float(step))) ** 2)
    norm = float(np.linalg.norm(scaled))
    if norm * norm > limit:
        scaled *= math.sqrt(limit) / norm
    result = np.empty(scaled.shape, np.int64)
    for start in range(0, scaled.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        chance = (words(scaled[part].size) >> np.uint64(11)) * 2.0**-53
        result[part] = np.floor(scaled[part] + chance)
    excess = int(result @ result) - limit
    while excess > 0:
        distance = np.abs(scaled)
        distance -= np.abs(result)
        for threshold in (-0.5, np.inf):  # those below -1/2 are mostly enough
            order = np.flatnonzero((distance < threshold) & (result != 0))
            order = order[np.argsort(distance[order], kind="stable")]
            gain = np.cumsum(2 * np.abs(result[order]) - 1)
            if gain[-1:].sum() >= excess:
                break
        number = min(int(np.searchsorted(gain, excess)) + 1, order.size)
        back = order[:number]
        result[back] -= np.sign(result[back])
        excess -= int(gain[number - 1])
    return result


def wrapped(numbers: np.ndarray, bits: int) -> np.ndarray:
    """(…) int64 in [−2^(b−1), 2^(b−1)): whole numbers, or sums of them, modulo 2^b."""
    half = 1 << (bits - 1)
    residues = np.asarray(numbers, np.int64) + half
    residues &= 2 * half - 1
    residues -= half
    return residues
