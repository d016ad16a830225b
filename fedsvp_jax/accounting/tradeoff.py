"""An ε as rates of an adversary's guesses, which (ε, δ) at every δ bound.

An adversary knows all but one record and guesses whether it was there. If what he sees
is (ε, δ)-DP, then of records that were there he recognises at most

    TPR ≤ min(e^ε·FPR + δ, 1 − (1 − FPR − δ)/e^ε)

with a share FPR of false alarms, and of his guesses at even odds he has right at most
1/2 + (e^ε − 1 + 2δ)/(2(e^ε + 1)). Both hold for every δ with its ε, so the least of
them does. Sources: Kairouz, Oh and Viswanath 2015 (arXiv 1311.0776), Theorem 2.1; Dong,
Roth and Su 2022 (arXiv 1905.02383), Proposition 2.5.

μ is that of the Gaussian mechanism which hides no more at any of these δ; for Gaussian
uploads alone it is exact, and TPR = Φ(μ − Φ⁻¹(1 − FPR)), right = Φ(μ/2).
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedsvp_jax.core.files import Record
from fedsvp_jax.mechanisms.calibration import analytic_multiplier

from . import Account, SpendingPlan, claims
from .composition import composed_epsilon

Pairs = Sequence[tuple[float, float]]  # (ε, δ) that hold
FALSE_ALARMS = 0.01
_DELTAS = np.concatenate([np.logspace(-4, -2, 5), np.linspace(0.02, 0.5, 13)])
_LARGEST = 700.0  # of an exponent
_ROUNDING = 1 + 1e-6  # of a promise that is kept to its last digits


def recognised(pairs: Pairs) -> float:
    """The largest TPR at an FPR of `FALSE_ALARMS`, of (ε, δ) that hold."""
    return min(
        min(odds * FALSE_ALARMS + delta, 1 - (1 - FALSE_ALARMS - delta) / odds, 1.0)
        for odds, delta in _odds(pairs)
    )


def right_of_100(pairs: Pairs) -> float:
    """The most of 100 guesses at even odds that are right, of (ε, δ) that hold."""
    return min(
        min(100.0, 50 + 50 * (odds - 1 + 2 * delta) / (odds + 1))
        for odds, delta in _odds(pairs)
    )


def _odds(pairs: Pairs) -> list[tuple[float, float]]:
    return [(math.exp(min(epsilon, _LARGEST)), delta) for epsilon, delta in pairs]


def risk(pairs: Pairs, *, exact: bool = False) -> Record:
    """`mu`, `recognised` at 1 % false alarms, `right_of_100`, and `exact`.

    Where μ is exact its own rates hold too.
    """
    from scipy.stats import norm

    mu = max(
        (1 / float(analytic_multiplier(*pair)) for pair in pairs if pair[0] > 0),
        default=0.0,
    )
    tpr, right = recognised(pairs), right_of_100(pairs)
    if exact:
        tpr = min(tpr, float(norm.cdf(mu - norm.isf(FALSE_ALARMS))))
        right = min(right, 100 * float(norm.cdf(mu / 2)))
    return {"mu": mu, "recognised": tpr, "right_of_100": right, "exact": exact}


def by_adversary(account: Account) -> dict[str, Record]:
    """`risk` of what was spent, against everybody to whom a finite ε is claimed.

    Of the client that spent most, for one record or client as the claim's relation
    says; several copies of a record are not meant.
    """
    sampling = account.mechanism.subsampling
    sampled = sampling is not None and min(rate for rate, _ in sampling.kinds) < 1
    events = account.passes, account.other_costs.bounds, account.release_epsilon
    exact = not (sampled or any(events))
    method = "pld" if sampled else "gdp"
    risks = {}
    for view in claims.views_of(account):
        spent = functools.partial(account.epsilon_spent, method, view=view)
        pairs = _pairs(spent, account.terms.target_delta)
        if math.isfinite(pairs[0][0]):
            risks[claims.adversary(account, view)] = risk(pairs, exact=exact)
    return risks


def of_promises(promises: Sequence[tuple[float, float, str]]) -> Record:
    """`risk` of all that its accounting lets noised uploads spend below each (ε, δ).

    Those of a promise have the largest Σ1/z² whose ε at δ, by its own accounting, is no
    more; those of several add up, and ε of their sum holds at every δ. By "rdp" they
    are known to be zCDP alone, by "pld" to hide no less than Gaussians.
    """
    precision = sum(
        _precision(functools.partial(composed_epsilon, name), min(e, _LARGEST), d)
        for e, d, name in promises
    )
    method = max(name for *_, name in promises)  # rdp after pld
    spent = functools.partial(composed_epsilon, method, precision * _ROUNDING)
    return risk(_pairs(spent, promises[0][1]), exact=method == "pld")


def of_gaussian(
    epsilon: float, delta: float, bought: tuple[int, float]
) -> tuple[float, Record]:
    """z of the least Gaussian noise that spends (ε, δ), and the `risk` that is left.

    Args:
      bought: a number of bounds, and ε of each, which are spent too.
    """
    spent = functools.partial(composed_epsilon, "pld", responses=[bought])
    precision = _precision(spent, epsilon, delta)
    while spent(precision, delta) > epsilon:
        precision /= _ROUNDING
    pairs = _pairs(functools.partial(spent, precision), delta)
    return precision**-0.5, risk(pairs, exact=not bought[0])


def _precision(
    spent: Callable[[float, float], float], epsilon: float, delta: float
) -> Any:
    """1/z² of which `spent`, at δ, is ε."""
    from scipy import optimize

    return optimize.brentq(
        lambda value: spent(value, delta) - epsilon, 0.0, 4 * epsilon + 40, xtol=1e-15
    )


def _pairs(epsilon: Callable[[float], float], delta: float) -> Pairs:
    """(ε, δ) at δ and at `_DELTAS`."""
    return [(epsilon(value), value) for value in (delta, *map(float, _DELTAS))]


def uploads_left(account: Account) -> int | None:
    """Uploads that a promise still allows every client; None where none was made."""
    if account.terms.total_epsilon is None:
        return None
    return max(0, SpendingPlan(account).most_uploads - int(account.uploads.max()))
