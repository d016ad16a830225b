"""ε of Gaussian uploads, releases of R and votes together, by several accountants.

Gaussians compose to one Gaussian: uploads of multipliers z_t are together the
Gaussian mechanism of multiplier (Σ 1/z_t²)^(−1/2), exactly. The sum Σ 1/z_t², here
`precision`, is therefore all that has to be remembered of them.

That holds for multipliers fixed in advance. Where a multiplier was chosen from what
was released before (R from a release, a clip from past models), the same sum is what
a privacy filter adds up: a promise that was fixed before the run and is kept by
an `Allowance` stands (Feldman and Zrnic 2021 for RDP; Smith and Thakurta 2022
and Koskela et al. 2023 for Gaussians), a total read off afterwards is a tally.

A release of R is (ε_r, 0)-DP, a vote of the influence filter (ε_v, 0)-DP. Every such
mechanism is a post-processing of binary randomised response (Kairouz et al. 2015), so
each is counted as one: exact for votes and `randomized_response`, from above for
`laplace`.

Local steps on Poisson batches are subsampled Gaussians, which no single number
describes: they are composed as what they are, so many of (z, q).
"""

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.mechanisms.calibration import gaussian_epsilon
from fedsvp_jax.mechanisms.subsampling import SampledSteps

METHODS = ("basic", "rdp", "pld", "gdp")
_FINEST_INTERVAL = 1e-4  # dp-accounting's default grid of privacy losses
_LARGEST_PLD = 100.0  # ε beyond which no distribution of privacy losses is computed
_GRID_POINTS = 1e5  # beyond ε = 10 the grid coarsens: 0.3 s at any ε
_LEAST_LOSS = 1e-6  # precisions of steps below which sampling is not counted
_STEP_INTERVAL = 0.005  # of the std of one step's loss: ε to 1e-5 relative


class Sums(NamedTuple):
    """What one client has sent, or will, as one adversary sees it."""

    uploads: float  # in parts of one, where R is not told
    precision: float  # Σ1/z²; inf where one had no noise
    epsilon: float  # Σε as claimed
    least: float  # z of an upload with the least noise


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
      method: "rdp" (Mironov 2017), "pld" (Koskela et al. 2020; Doroshenko et al.
        2022), both by dp-accounting, or "gdp": exact for Gaussians alone (Balle and
        Wang 2018), with releases and votes added up.
      precision: Σ 1/z_t² over what had Gaussian noise; inf where one had none.
      delta: δ in (0, 1).
      responses: (number, ε) of releases of R and of votes; ε is inf for a vote that is
        reported as it is.
      steps: on Poisson batches, for a record that is left out of them. By "rdp"
        (Mironov, Talwar and Zhang 2019) and "pld" (Zhu, Dong and Wang 2022).

    Returns:
      ε, an upper bound; inf where the precision, a response's ε or 1/z of the steps is.

    Raises:
      ValueError: δ outside (0, 1), an unknown method, or steps with "gdp".
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    if method not in METHODS[1:]:
        raise ValueError(f"method must be one of rdp, pld, gdp, got {method!r}")
    told = tuple(
        (int(count), float(epsilon))
        for count, epsilon in responses
        if count > 0 and epsilon > 0
    )
    if steps is not None:
        if method == "gdp":
            raise ValueError("method must be rdp or pld for Poisson batches, got 'gdp'")
        if steps.multiplier == 0:
            return math.inf
        whole = steps.number / steps.multiplier**2
        if steps.rate == 1 or whole < _LEAST_LOSS:  # sampling can only hide more
            precision, steps = precision + whole, None
    if math.isinf(precision) or any(math.isinf(epsilon) for _, epsilon in told):
        return math.inf
    if precision == 0 and not told and steps is None:
        return 0.0
    return _composed(method, float(precision), float(delta), told, steps)


Responses = tuple[tuple[int, float], ...]  # (count, ε) of randomised responses


@functools.lru_cache(maxsize=4096)
def _composed(
    method: str,
    precision: float,
    delta: float,
    responses: Responses,
    steps: SampledSteps | None,
) -> float:
    if method == "rdp" or steps is not None:
        largest = _rdp_epsilon(precision, delta, responses, steps)
        if method == "rdp" or largest > _LARGEST_PLD:
            return largest
    else:
        exact = gaussian_epsilon(precision, delta)
        largest = exact + sum(count * epsilon for count, epsilon in responses)
        # Beyond that dp-accounting overflows; it is exact without responses.
        if method == "gdp" or exact > _LARGEST_PLD:
            return largest
    interval = max(_FINEST_INTERVAL, largest / _GRID_POINTS)
    if steps is not None:  # whose losses have about the std q/z
        interval = max(interval, _STEP_INTERVAL * steps.rate / steps.multiplier)
    losses = _privacy_losses(precision, responses, interval, steps)
    return float(losses.get_epsilon_for_delta(delta))


def _rdp_epsilon(
    precision: float,
    delta: float,
    responses: Responses,
    steps: SampledSteps | None,
) -> float:
    from dp_accounting.rdp import rdp_privacy_accountant

    orders = np.asarray(rdp_privacy_accountant.DEFAULT_RDP_ORDERS, float)
    if steps is not None:  # between whole numbers dp-accounting's series may diverge
        orders = orders[orders == np.round(orders)]
    curve = 0.5 * precision * orders
    if steps is not None:
        curve = curve + steps.number * _step_rdp(
            steps.multiplier, steps.rate, tuple(orders.tolist())
        )
    for count, epsilon in responses:
        curve = curve + count * randomized_response_rdp(orders, epsilon)
    epsilon, _ = rdp_privacy_accountant.compute_epsilon(orders, curve, delta)
    return float(epsilon)


@functools.lru_cache(maxsize=1024)
def _step_rdp(multiplier: float, rate: float, orders: tuple[float, ...]) -> np.ndarray:
    """Rényi divergence of one subsampled Gaussian, by order."""
    import dp_accounting
    from dp_accounting.rdp import rdp_privacy_accountant

    accountant = rdp_privacy_accountant.RdpAccountant(orders)
    gaussian = dp_accounting.GaussianDpEvent(multiplier)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, gaussian))
    return np.asarray(accountant.rdp, float)


def randomized_response_rdp(orders: np.ndarray, epsilon: float) -> np.ndarray:
    """Rényi divergence of one binary randomised response, by order α.

        ln(p^α q^(1−α) + q^α p^(1−α)) / (α − 1), p = e^ε/(1 + e^ε), q = 1 − p

    Source: Mironov 2017 (arXiv 1702.07476), Proposition 5.
    """
    log_p, log_q = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    total = np.logaddexp(
        orders * log_p + (1 - orders) * log_q, orders * log_q + (1 - orders) * log_p
    )
    return total / (orders - 1)


@functools.lru_cache(maxsize=16)  # so that many δ ask one distribution
def _privacy_losses(
    precision: float,
    responses: Responses,
    interval: float,
    steps: SampledSteps | None,
) -> Any:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution

    parts: list[Any] = []
    if precision > 0:
        gaussian = privacy_loss_distribution.from_gaussian_mechanism(
            precision**-0.5, value_discretization_interval=interval
        )
        parts.append(gaussian)
    if steps is not None:
        step = privacy_loss_distribution.from_gaussian_mechanism(
            steps.multiplier,
            value_discretization_interval=interval,
            sampling_prob=steps.rate,
        )
        parts.append(step.self_compose(steps.number))
    for count, epsilon in responses:
        # Composed here: dp-accounting 0.6's PLDAccountant drops a count of these.
        response = privacy_loss_distribution.from_randomized_response(
            2.0 / (1.0 + math.exp(epsilon)),  # chance of a uniform answer
            2,
            value_discretization_interval=interval,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        )
        parts.append(response.self_compose(count))
    return functools.reduce(lambda one, other: one.compose(other), parts)
