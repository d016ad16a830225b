"""Lower bounds of ε from the scores of an audit.

There are two bounds, from many games.

    clopper_pearson  Jagielski et al. 2020, by jax-privacy's `CanaryScoreAuditor`. It
                     assumes nothing; the threshold is chosen on one half of the games
                     and tested on the other.
    gaussian         Nasr et al. 2023. It assumes a trade-off curve of Gaussian form,
                     which a mechanism has whose noise is Gaussian with the same
                     standard deviations in both worlds, and is the tightest.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fedsvp_jax.core import extras

_MOST_HALVINGS = 14  # of a significance of .05: the smallest p-value is 3e-6


def gaussian_bound(
    inside: np.ndarray, outside: np.ndarray, *, delta: float, significance: float
) -> float:
    """ε at δ of the smallest mu for which mu-GDP is compatible with the scores.

        mu = Φ⁻¹(1 − FPR) − Φ⁻¹(FNR), with upper bounds of both error rates

    The threshold is 0, equal likelihood, so that it is not chosen from the scores.
    (jax-privacy 2.0.0's `epsilon_from_gdp` takes the absolute value where mu < 0, which
    is wrong for upper bounds: for N(0, 1) against N(.2, 1), where ε is .73 at
    δ = 1e-5, it returned .6 to 4.8 from 4,000 games with five seeds.)

    Source: Nasr et al. 2023 (arXiv 2302.07956); Dong, Roth and Su 2019, for GDP.
    """
    from dp_accounting import gaussian_mechanism
    from scipy import stats

    def upper_bound(errors: np.ndarray) -> float:  # Clopper and Pearson's upper bound
        test = stats.binomtest(int(errors.sum()), len(errors))
        return float(test.proportion_ci(1 - significance).high)

    mu = float(
        stats.norm.isf(upper_bound(outside >= 0))
        - stats.norm.ppf(upper_bound(inside < 0))
    )
    if not mu > 0:
        return 0.0
    return float(gaussian_mechanism.get_epsilon_gaussian(1 / mu, delta))


def require_auditor() -> Any:
    """The module of jax-privacy that computes the bounds.

    Raises:
      MissingExtra: it is not installed.
    """
    with extras.needed("audit", "the audit"):
        from jax_privacy import auditing
    return auditing


def lower_bounds(
    inside: np.ndarray,
    outside: np.ndarray,
    *,
    delta: float,
    equal_noise: bool,
    significance: float = 0.05,
    seed: int = 0,
) -> dict[str, float]:
    """Lower bounds of ε at δ, by method.

    Each method gets half of the significance, so that the larger of the two bounds
    holds at the whole significance. The neighbouring relations are symmetric, so
    the Clopper-Pearson test may use either direction.

    Args:
      inside, outside: (n,) log likelihood ratios of many games in each world, or other
        scores with the same zeros.
      delta: δ; at 0 only `clopper_pearson` is defined, from 1 on nothing is bounded.
      equal_noise: whether the noise has the same standard deviations in both worlds.
        If not, the trade-off is not of Gaussian form and `gaussian` is left out.
      significance: probability that a bound exceeds the true ε.
      seed: of the split into halves, on one of which a threshold is chosen.

    Raises:
      MissingExtra: jax-privacy is not installed (the extra `audit`).
    """
    auditing = require_auditor()
    if delta >= 1:
        return {"clopper_pearson": 0.0}
    share = significance / 2  # the methods
    auditor = auditing.CanaryScoreAuditor(inside, outside)
    bounds = {
        "clopper_pearson": auditor.epsilon_clopper_pearson(
            share, delta, one_sided=False, threshold_strategy=auditing.Split(seed=seed)
        )
    }
    if equal_noise and delta > 0:
        bounds["gaussian"] = gaussian_bound(
            inside, outside, delta=delta, significance=share
        )
    return {
        name: float(value) if math.isfinite(value) else math.inf
        for name, value in bounds.items()
    }


def p_value(claim: float, bounds: Callable[..., dict[str, float]]) -> float:
    """A p-value of the hypothesis that a claimed ε holds.

    It is .05/2^k for the largest k ≤ 14 such that the lower bounds at the significances
    .05, .05/2, ..., .05/2^k all exceed the claim, and 1 if the first does not. A lower
    bound at the significance α exceeds a true claim with a probability of at most α,
    so this number is at most α with a probability of at most α.

    Args:
      claim: ε, or inf.
      bounds: `lower_bounds`, but for the significance; the largest counts.
    """
    p = 1.0
    for halvings in range(_MOST_HALVINGS + 1):
        significance = 0.05 / 2**halvings
        if not max(bounds(significance=significance).values()) > claim:
            break
        p = significance
    return p
