"""ε of Gaussian uploads and of pure ε-DP events together, by several accountants.

Gaussians compose to one Gaussian: uploads of multipliers z_t are together the
Gaussian mechanism of multiplier (Σ 1/z_t²)^(−1/2), exactly. The sum Σ 1/z_t², here
`precision`, is therefore all that has to be remembered of them.

That holds for multipliers fixed in advance. Where a multiplier was chosen from what
was released before (R from a release, a clip from past models), the same sum is what
a privacy filter adds up: a promise that was fixed before the run and is kept by
an `Allowance` stands (Feldman and Zrnic 2021 for RDP; Smith and Thakurta 2022
and Koskela et al. 2023 for Gaussians), a total read off afterwards is a tally.

A release of R is (ε_r, 0)-DP, a vote of the influence filter (ε_v, 0)-DP, a bound that
was bought (ε_b, 0)-DP. Every such mechanism is a post-processing of binary randomised
response (Kairouz et al. 2015), so each is counted as one: exact for votes and
`randomized_response`, from above for `laplace` and bounds.

Local steps on Poisson batches are subsampled Gaussians, which no single number
describes: they are composed as what they are, so many of (z, q).
"""

import functools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fedsvp_jax.mechanisms.calibration import gaussian_epsilon
from fedsvp_jax.mechanisms.subsampling import SampledSteps

_LEAST_MULTIPLIER = 0.01  # of a step that is counted as sampled; ε is > 1,000 below it


class Sums(NamedTuple):
    """Sums over one client's uploads, sent or planned, as one adversary sees them."""

    uploads: float  # in parts of one, where R is not told
    precision: float  # Σ1/z²; inf where one had no noise
    epsilon: float  # Σε as claimed
    least_multiplier: float  # z of an upload with the least noise


def composed_epsilon(
    method: str,
    precision: float,
    delta: float,
    *,
    responses: Iterable[tuple[int, float]] = (),
    steps: SampledSteps | None = None,
) -> float:
    """ε at δ of Gaussians of the given precision with everything else that is given.

    Args:
      method: "rdp" (Mironov 2017), "pld" (`losses`; exact for Gaussians alone), or
        "gdp": exact for Gaussians alone (Balle and Wang 2018), with responses' ε added
        up.
      precision: Σ 1/z_t² over what had Gaussian noise; inf where one had none.
      delta: δ in (0, 1).
      responses: (number, ε) of releases of R, of votes and of bounds; ε is inf for a
        vote that is reported as it is.
      steps: on Poisson batches, for a record that is left out of them. By "rdp"
        (Mironov, Talwar and Zhang 2019) and "pld" (Zhu, Dong and Wang 2022).

    Returns:
      ε, an upper bound; inf where the precision, a response's ε or 1/z of the steps is.

    Raises:
      ValueError: δ outside (0, 1), an unknown method, or steps with "gdp".
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    if method not in ("rdp", "pld", "gdp"):
        raise ValueError(f"method must be one of rdp, pld, gdp, got {method!r}")
    pairs = tuple(pair for pair in responses if min(pair) > 0)
    if steps is not None:
        if method == "gdp":
            raise ValueError("method must be rdp or pld for Poisson batches, got 'gdp'")
        if steps.multiplier == 0:
            return math.inf
        if steps.rate == 1 or steps.multiplier < _LEAST_MULTIPLIER:
            precision, steps = precision + steps.number / steps.multiplier**2, None
    if math.isinf(precision) or any(math.isinf(epsilon) for _, epsilon in pairs):
        return math.inf
    return _composed(method, precision, delta, pairs, steps)


@functools.lru_cache(maxsize=4096)
def _composed(
    method: str,
    precision: float,
    delta: float,
    responses: tuple[tuple[int, float], ...],
    steps: SampledSteps | None,
) -> float:
    if method == "rdp":
        from dp_accounting.rdp import rdp_privacy_accountant

        orders = np.asarray(rdp_privacy_accountant.DEFAULT_RDP_ORDERS, float)
        curve = 0.5 * precision * orders
        if steps is not None:
            curve += steps.number * _step_divergences(steps._replace(number=1))
        for count, epsilon in responses:
            # Of a binary randomised response (Mironov 2017, arXiv 1702.07476, prop. 5):
            # D_α = ln(p^α q^(1−α) + q^α p^(1−α))/(α − 1), p = e^ε/(1 + e^ε), q = 1 − p
            log_p, log_q = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
            total = np.logaddexp(
                orders * log_p + (1 - orders) * log_q,
                orders * log_q + (1 - orders) * log_p,
            )
            curve += count * (total / (orders - 1))
        return float(rdp_privacy_accountant.compute_epsilon(orders, curve, delta)[0])
    from .losses import Gaussians, Responses, epsilon_of

    # Sampling can only hide more.
    unsampled = 0.0 if steps is None else steps.number / steps.multiplier**2
    added_up = gaussian_epsilon(precision + unsampled, delta)
    added_up += sum(count * epsilon for count, epsilon in responses)
    if method == "gdp" or not (responses or steps):
        return added_up
    parts = [Responses(epsilon, count) for count, epsilon in responses]
    gaussians = [Gaussians(*steps)] if steps else []
    if precision > 0:
        gaussians.append(Gaussians(precision**-0.5, 1.0, 1))
    return min(added_up, epsilon_of([*gaussians, *parts], delta))


@functools.lru_cache(maxsize=1024)
def _step_divergences(step: SampledSteps) -> np.ndarray:
    """Rényi divergences of one subsampled Gaussian, at dp-accounting's orders."""
    from dp_accounting.rdp import rdp_privacy_accountant

    from .losses import Gaussians

    gaussian = Gaussians(*step)
    orders = rdp_privacy_accountant.DEFAULT_RDP_ORDERS
    return np.asarray([gaussian.divergence(order) for order in orders])
