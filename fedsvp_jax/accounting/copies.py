"""ε of a record of which several clients hold a copy (P18)."""

import dataclasses

import numpy as np

from . import Account, OtherCosts
from .composition import Sums
from .views import VIEWS


def spent_by_copies(account: Account, method: str, view: str) -> tuple[float, float]:
    """ε if the data of k clients change at once, as they do with a common record.

    Let p_i be client i's Σ1/z² in a view. Sums go over the k clients that spent most:

        server:  Σ p_i        the uploads of different clients are independent Gaussians
        others:  (Σ √p_i)²    the moves of one average add up

    The second is Minkowski's inequality, for √p_i is the length of the vector of all
    rounds' moves by client i, in units of the noise. An average is a function of the
    uploads, so where these are claimed it spends at most what they do. The adversary
    of the view is none of the k clients.

    Returns:
      ε, and `Account.certain_chance` of all k by the same bounds: in one round an
      average moves by at most what k clients move it by, k/z with the least z of one.
    """
    against_server = account.mechanism.claim.against_server
    seen = {view, "server"} if against_server else {view}
    bounds = [_sums_of_copies(account, name) for name in sorted(seen)]
    return (
        min(bound.composed(method, sums, cost) for bound, sums, cost in bounds),
        min(bound.certain_chance(sums, cost) for bound, sums, cost in bounds),
    )


def _sums_of_copies(account: Account, view: str) -> tuple[Account, Sums, OtherCosts]:
    copies, mechanism = account.participation.copies, account.mechanism
    number = VIEWS.index(view)

    def largest(values: np.ndarray) -> np.ndarray:
        return np.sort(values)[-copies:]

    precision = largest(account.precision[number])
    total = precision.sum() if view == "server" else np.sqrt(precision).sum() ** 2
    if mechanism.subsampling is not None:
        # No kind alone bounds clients of several kinds: the worst rate with the worst
        # count does. In an average they count as if nothing were sampled.
        kinds = mechanism.subsampling.kinds
        largest_kind = max(rate for rate, _ in kinds), max(steps for _, steps in kinds)
        worst = mechanism.subsampling._replace(kinds=(largest_kind,))
        mechanism = mechanism._replace(subsampling=worst if view == "server" else None)
    least = float(account.least[number].min())
    sums = Sums(
        uploads=float(largest(account.uploads).sum()),
        precision=float(total),
        epsilon=0.0,
        least_multiplier=least if view == "server" else least / copies,
    )
    bound = dataclasses.replace(account, mechanism=mechanism)
    return bound, sums, account.other_costs.times(copies)
