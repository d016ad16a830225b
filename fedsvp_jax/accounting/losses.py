"""ε at δ of what is composed, by the distribution of its privacy loss, from above.

Of two neighbours' outputs P and Q the privacy loss is L = ln dP/dQ, drawn under P. The
losses of mechanisms that are composed add up, and (Sommer, Meiser and Mohammadi 2019)

    δ(ε) = E[max(0, 1 − e^(ε−L))]

Each loss is moved to the two ends of its interval on a grid so that P's and Q's masses
stay, which can only raise δ (Doroshenko et al. 2022). The sum's distribution follows by
FFT. An FFT is wrong by about 1e-16 of everything, which is more than a small δ. Each
loss is therefore tilted first, to the probabilities p·e^(θL)/E[e^(θL)] (Esscher 1932).
With θ of Chernoff's bound at δ, what decides δ is the bulk of the tilted sum, and
δ = 1e-15 keeps as many digits as .1. What rounding may have taken is added to each
probability of the sum.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import fft, optimize, signal, special

from fedsvp_jax.mechanisms.subsampling import SampledSteps

Masses = tuple[np.ndarray, np.ndarray, np.ndarray]  # places on a grid, P's and Q's
Ends = tuple[float, float]  # the lowest and the highest that counts
_ERROR = 1e-5  # of ε: what the grid adds, about
_MOST_POINTS = 2**20  # of a grid, for which it may add more
_OUTSIDE = 30.0  # e^−30 of the tilted sum lies beyond an end of the grid, at most
_CUT = 1e-6  # of δ: what the tails of single losses add
_MOST_NODES = 2**16  # of a quadrature
_REFINEMENTS = 3  # of the grid
_LARGEST = 500.0  # an exponent
_EPS = float(np.finfo(float).eps)


class Gaussians(SampledSteps):
    """Gaussians on Poisson batches: (1 − q)·N(0, z²) + q·N(1, z²) against N(0, z²).

    Attributes:
      multiplier: z: std of the noise over what a record moves; at least .01 if q < 1.
      rate: q, the probability of a record to be in a batch; 1 where it is in each.
      number: how many.
    """

    def quadrature(self, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        """(L, ln of N(0, z²)'s masses) by a trapezoid rule from low − z to high + z.

        L is analytic to a distance of πz² from the real line, so that means over the
        whole line are right to 1e-13 of themselves.
        """
        z = self.multiplier
        x = np.arange(low - z, high + z, self._step)
        constant = math.log(self._step / z) - math.log(2 * math.pi) / 2
        return self._loss(x), constant - (x / z) ** 2 / 2

    @property
    def _step(self) -> float:
        z = self.multiplier
        return z / 2 if self.rate == 1 else min(z, z**2) / 2

    def divergence(self, order: float) -> float:
        """Rényi divergence of one, by order α > 1, whole or not.

            ln E[e^(αL)] / (α − 1), the mean over N(0, z²)

        Where this would take too long it is that of q = 1, which is larger.

        Source: Mironov, Talwar and Zhang 2019 (arXiv 1908.10530), section 3.3.
        """
        z = self.multiplier
        if self.rate == 1 or (order + 24 * z) / self._step > _MOST_NODES:
            return order / (2 * z**2)
        loss, log_mass = self.quadrature(-12 * z, order + 12 * z)
        # The mean of e^L is 1, so that of e^(αL) − 1 − α(e^L − 1) is what the moment is
        # above 1. No term is negative, so none loses digits.
        far = order * loss > 30
        near, log_near = loss[~far], log_mass[~far]
        excess = _curved(order * near) - order * _curved(near)
        log_moment = math.log1p(float(np.exp(log_near) @ excess))
        if far.any():
            growth, loss = order * loss[far], loss[far]
            less = (order - 1) * np.exp(-growth) - order * np.exp(loss - growth)
            log_far = special.logsumexp(log_mass[far] + growth + np.log1p(less))
            log_moment = float(np.logaddexp(log_moment, log_far))
        return log_moment / (order - 1)

    def _loss(self, x: np.ndarray) -> np.ndarray:
        in_batch = (x - 0.5) / self.multiplier**2 + math.log(self.rate)
        return in_batch if self.rate == 1 else np.logaddexp(self._least_loss, in_batch)

    @property
    def _least_loss(self) -> float:
        return math.log1p(-self.rate) if self.rate < 1 else -math.inf

    def ends(self, delta: float, epsilon: float, record_added: bool) -> Ends:
        """x beyond which all of them together decide about no more than 1e-6·δ.

        What lies above counts as a loss of ∞. That raises δ(ε) by N(0, z²)'s mass there
        times e^ε, and by no more than the other distribution's.
        """
        z, share = self.multiplier, math.log(_CUT * delta / self.number)
        reach = -z * float(special.ndtri_exp(share))
        if record_added:
            return -reach, reach
        low = 1 - reach if self.rate == 1 else -reach
        return low, min(1 + reach, -z * float(special.ndtri_exp(share - epsilon)))

    def grid(self, interval: float, low: float, high: float) -> Masses:
        """Places on a grid of losses for x from low to high, and masses between them.

        Masses are of both distributions where L is between −∞, each of the places times
        the interval, and ∞.
        """
        z, q = self.multiplier, self.rate
        first, last = self._loss(np.asarray([low, high])) / interval
        places = np.arange(math.floor(first), math.ceil(last) + 1)
        ends = interval * places
        with np.errstate(divide="ignore"):  # up to ln(1 − q) there is nothing
            above = np.log(-np.expm1(np.minimum(self._least_loss - ends, 0)))
        x = z * (ends + above - math.log(q)) + 0.5 / z
        second = _normal_masses(x)
        return places, (1 - q) * second + q * _normal_masses(x - 1 / z), second


class Responses(NamedTuple):
    """Binary randomised responses.

    Attributes:
      epsilon: ε > 0 of one.
      number: how many.
    """

    epsilon: float
    number: int

    def quadrature(self, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        """(L, ln of the second distribution's masses)."""
        loss = np.asarray([low, high])
        return loss, -np.logaddexp(0, loss)

    def ends(self, delta: float, epsilon: float, record_added: bool) -> Ends:
        """The two losses."""
        return -self.epsilon, self.epsilon

    def grid(self, interval: float, low: float, high: float) -> Masses:
        """The losses on a grid, as `Gaussians.grid` has them."""
        loss, log_mass = self.quadrature(low, high)
        last = math.ceil(high / interval)
        places = np.arange(-last, last + 1)
        cells, mass = np.searchsorted(places, loss / interval), np.exp(log_mass)
        size = len(places) + 1
        first = np.bincount(cells, mass[::-1], size)
        return places, first, np.bincount(cells, mass, size)


def _curved(x: np.ndarray) -> np.ndarray:
    """e^x − 1 − x with all its digits."""
    series = x**2 / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5)))
    return np.where(np.abs(x) < 1e-3, series, np.expm1(x) - x)


def _normal_masses(x: np.ndarray) -> np.ndarray:
    """N(0, 1)'s masses between −∞, each x and ∞; the tails keep all their digits."""
    x = np.concatenate([[-math.inf], x, [math.inf]])
    below, above = special.ndtr(x), special.ndtr(-x)
    return np.where(x[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])


Part = Gaussians | Responses
Composed = Sequence[Part]
Bounded = list[tuple[Part, Ends]]  # each with the losses of it that count


def epsilon_of(parts: Composed, delta: float) -> float:
    """ε at δ, above the exact value by some 1e-5 of it, of mechanisms together.

    Both orders of the neighbours are counted, where a record is added and where one is
    removed. The order of the mechanisms plays no part.
    """
    removed = _epsilon(parts, delta, False, 0.0)
    if all(isinstance(part, Responses) or part.rate == 1 for part in parts):
        return removed
    return _epsilon(parts, delta, True, removed)


def _cumulants(
    losses: list[tuple[np.ndarray, np.ndarray, int]], theta: float
) -> tuple[float, float, float]:
    """ln E[e^(θL)] of the sum, and mean and variance of the tilted sum."""
    log_moment, mean, variance = 0.0, 0.0, 0.0
    for loss, log_mass, number in losses:
        log_tilted = log_mass + theta * loss
        log_total = float(special.logsumexp(log_tilted))
        mass = np.exp(log_tilted - log_total)
        tilted_mean = float(mass @ loss)
        log_moment += number * log_total
        mean += number * tilted_mean
        variance += number * float(mass @ (loss - tilted_mean) ** 2)
    return log_moment, mean, variance


def _epsilon(parts: Composed, delta: float, record_added: bool, floor: float) -> float:
    """ε in one order of the neighbours; `floor` where it is no more than that."""
    number = sum(part.number for part in parts)
    epsilon, steepness, interval = math.inf, 0.0, math.inf
    for _ in range(_REFINEMENTS):
        bounded = [(part, part.ends(delta, epsilon, record_added)) for part in parts]
        tilt = _tilt(bounded, delta, epsilon, record_added)
        if math.isinf(epsilon):
            epsilon, steepness = tilt.epsilon, tilt.theta
            if epsilon <= floor:
                return floor
        # A grid adds number·interval²/6 to the variance of the sum, and that times
        # (1 − d ln δ/dε)/2 to ε.
        target = math.sqrt(12 * _ERROR * epsilon / (number * (1 + steepness)))
        spans = [tilt.high - tilt.low]
        for part, ends in bounded:
            loss, _ = part.quadrature(*ends)
            spans.append(float(loss[-1] - loss[0]))
        coarsest = max(spans) / _MOST_POINTS
        if math.isfinite(interval) and coarsest > 16 * target:  # rare large losses
            coarsest /= 4
        before, interval = interval, max(target, coarsest)
        if interval > before / 1.5:
            break
        refined = _epsilon_on_grid(bounded, tilt, interval, delta, record_added)
        if refined[0] <= floor:
            return floor
        if refined[0] < epsilon:
            epsilon, steepness = refined
    return epsilon


class _Tilt(NamedTuple):
    """θ, the bound on ε by it, and two losses beyond either of which little is left.

    Of the tilted sum at most e^−30 lies below `low`, and at most that above `high`.
    """

    theta: float
    epsilon: float
    low: float
    high: float


def _tilt(bounded: Bounded, delta: float, epsilon: float, record_added: bool) -> _Tilt:
    """The tilt whose sum has the mean ε; at an ε of ∞, the one of the least bound.

    δ(ε) ≤ E[e^(θL)]·e^(−θε)·θ^θ/(1 + θ)^(1+θ) for each θ > 0 (Canonne, Kamath and
    Steinke 2020, Proposition 12), `low` and `high` by Chernoff.
    """
    losses = []
    for part, ends in bounded:
        loss, log_mass = part.quadrature(*ends)
        signed = (-loss, log_mass) if record_added else (loss, log_mass + loss)
        losses.append((*signed, part.number))
    log_delta = math.log(delta) + math.log1p(-_CUT * len(bounded))

    def excess(log_theta: float) -> float:  # it grows
        theta = math.exp(log_theta)
        log_moment, mean, _ = _cumulants(losses, theta)
        if math.isfinite(epsilon):
            return mean - epsilon
        return theta * mean - log_moment + math.log1p(theta) + log_delta

    largest = max(float(np.abs(loss).max()) for loss, *_ in losses)
    lower, upper = -20 - math.log(max(largest, 1)), math.log(1e8 / largest)
    if excess(lower) > 0:
        log_theta = lower
    elif excess(upper) < 0:
        log_theta = upper
    else:
        log_theta = optimize.brentq(excess, lower, upper, xtol=1e-3)
    theta = math.exp(log_theta)
    log_moment, _, variance = _cumulants(losses, theta)
    constant = theta * log_theta - (theta + 1) * math.log1p(theta) - log_delta
    std = math.sqrt(max(variance, theta**-2))
    steps = math.sqrt(2 * _OUTSIDE) / std * 2.0 ** np.arange(-6, 4)
    ends_of_grid = (
        sign
        * min(
            (_cumulants(losses, theta + sign * step)[0] - log_moment + _OUTSIDE) / step
            for step in steps
        )
        for sign in (-1, 1)
    )
    return _Tilt(theta, (log_moment + constant) / theta, *ends_of_grid)


def _discretized(
    part: Part, interval: float, ends: Ends, record_added: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """One loss on a grid: (multiples of the interval, their masses, the mass of ∞)."""
    places, first, second = part.grid(interval, *ends)
    if record_added:
        places, first, second = -places[::-1], second[::-1], first[::-1]
    # P's mass p between a and a + h, Q's q: p = m + M, q = m·e^(−a) + M·e^(−a−h).
    ratio = np.exp(np.minimum(interval * places[:-1], _LARGEST))
    between = first[1:-1]
    upper = (between - ratio * second[1:-1]) / -math.expm1(-interval)
    upper = np.clip(upper, 0, between)
    masses = np.append(first[:1], upper)
    masses[:-1] += between - upper
    return places, masses, float(first[-1])


def _epsilon_on_grid(
    bounded: Bounded, tilt: _Tilt, interval: float, delta: float, record_added: bool
) -> tuple[float, float]:
    """(ε, −d ln δ/dε) of the losses on a grid."""
    theta, first = tilt.theta, math.floor(tilt.low / interval)
    size = math.ceil(tilt.high / interval) - first + 1
    size = fft.next_fast_len(size, real=True)
    transform, log_moment, lost = np.ones(size // 2 + 1, complex), 0.0, 0.0
    number = 0
    for part, ends in bounded:
        places, masses, infinite = _discretized(part, interval, ends, record_added)
        with np.errstate(divide="ignore"):
            log_tilted = np.log(masses) + theta * interval * places
        log_total = special.logsumexp(log_tilted)
        tilted = np.bincount(places % size, np.exp(log_tilted - log_total), size)
        transform *= fft.rfft(tilted) ** part.number
        log_moment += part.number * log_total
        lost += part.number * infinite
        number += part.number
    # Of a transform to a power of n, n·1e-16 of it is rounded, in phase and in length.
    rounding = 4 * _EPS * (number + math.log2(size)) * float(np.abs(transform).mean())
    places = np.arange(first, first + size)
    sums = np.maximum(fft.irfft(transform, size), 0)[places % size] + rounding
    loss = interval * places
    log_scale = log_moment - math.log(delta)
    masses = sums * np.exp(np.minimum(log_scale - theta * loss, _LARGEST))  # over δ
    # δ(ε)/δ = above − below·e^(ε−L) at ε up to L from the loss before it.
    above = np.cumsum(masses[::-1])[::-1]
    decay = math.exp(-interval)
    below = signal.lfilter([1.0], [1.0, -decay], masses[::-1])[::-1]
    room = 1 - lost / delta - math.exp(log_scale - theta * loss[-1] - _OUTSIDE)
    if room <= 0:
        return math.inf, theta
    enough = np.append((above - decay * below)[1:] <= room, True)  # at L itself
    at = int(np.argmax(enough))
    if at == 0:
        return float(loss[0]), theta
    excess = float(above[at]) - room
    return float(loss[at]) + math.log(excess / below[at]), excess / room
