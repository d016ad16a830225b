"""A promise of what a client may spend, kept as a filter on who may take part.

Each upload has a cost that is known before its round, and a client takes part while
the sum of its costs stays within a budget. Whoever takes part may depend on all that
was released, since costs add up to at most the budget in any case: a privacy filter
(Rogers et al. 2016 for basic composition; Feldman and Zrnic 2021 for RDP; Smith and
Thakurta 2022 and Koskela et al. 2023 for Gaussians). With equal costs it is a cap on
the number of uploads.

The influence filter sends its contributions and votes before the uploads that it
decides about. They are charged first, with bounds that were bought before the run; the
uploads have the rest.
"""

import bisect
import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedsvp_jax.core.structs import Array

from .account import Account
from .composition import Sums

_ROUNDING = 1e-6  # an ε of float32 may lie above the number that was asked for
_STEPS = 1024  # an uneven budget is found to so many parts of an upload
_NO_ROOM = 1e-300  # an ε of which no upload has a part
_UNITS = 2**30  # what T of the costliest uploads cost in int32


class Allowance(NamedTuple):
    """A client may take part while its costs, the next one too, fit in the budget.

    Costs never fall from round to round, so whoever may not take part once, never
    may again.
    """

    costs: Array | np.ndarray  # (T,) int32: of an upload in each round
    budget: Array | np.ndarray  # () int32: the most that a client may spend
    least_cohort: Array | np.ndarray  # () int32: so many must be able to take part


class SpendingPlan:
    """The most that a run may spend, by its mechanism's bounds on each round's uploads.

    The dry run shows it, the solver solves it and a promise keeps it: the recorded sums
    are never more. It holds for the claim's adversary. A claim about the average
    assumes whole cohorts.

    Costs never fall from round to round. Where every upload releases R too, all cost as
    much as the costliest: a filter on two kinds of costs at once is proved for no
    accounting but the basic one. So do all uploads of Poisson batches, whose costs do
    not add up. Where --max_uploads limits the number of uploads, every upload that
    costs anything costs as much as the costliest.

    Args:
      account: of the run, whose mechanism has concrete settings.

    Attributes:
      precision: (T,) 1/z², the most that an upload of each round may cost.
      epsilon, delta: (T,) claimed, likewise.
      other_costs: of the influence filter's planned passes, and of bought bounds.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._terms, self._participation = account.terms, account.participation
        self.other_costs = self._participation.other_costs
        mechanism = account.mechanism
        multiplier = np.asarray(mechanism.least_multiplier, np.float64)
        with np.errstate(divide="ignore"):
            precision = 1.0 / np.square(np.maximum(multiplier, 0.0))
        self.precision, self.epsilon, self.delta = map(
            self._by_round, (precision, mechanism.most_epsilon, mechanism.most_delta)
        )

    def _by_round(self, values: object) -> np.ndarray:
        account, rounds = self._account, (self._participation.num_rounds,)
        by_round = np.broadcast_to(np.asarray(values, np.float64), rounds)
        if account.release_epsilon > 0 or account.mechanism.subsampling is not None:
            return np.full(rounds, by_round.max())
        if self._participation.max_uploads is not None:
            return np.where(by_round > 0, by_round.max(), 0.0)
        return np.maximum.accumulate(by_round)

    @property
    def always(self) -> int | None:
        """Uploads of a client that uploads whenever it may; None: in every round."""
        cap = self._participation.max_uploads
        return None if cap is None else min(cap, self._participation.num_rounds)

    def sums(self, uploads: float | None) -> Sums:
        """The sums of so many of the costliest uploads; None for one in every round."""
        return Sums(
            self._participation.num_rounds if uploads is None else uploads,
            _total(self.precision, uploads),
            _total(self.epsilon, uploads),
            float(self.precision[-1]) ** -0.5 if self.precision[-1] else math.inf,
        )

    def delta_of(self, uploads: float | None) -> float:
        """Σδ, at which basic composition holds."""
        return _total(self.delta, uploads) + self.other_costs.delta

    def promised(self, uploads: float | None) -> float:
        """ε as the promise counts it."""
        return self.composed(self._terms.total_accounting, uploads)

    def composed(
        self, method: str, uploads: float | None, shares: float = 1.0
    ) -> float:
        """ε of `Account.composed`; inf where Σδ of basic composition reaches 1.

        Args:
          shares: of a sum's noise, one of which is all that hides an upload.
        """
        if method == "basic" and self.delta_of(uploads) >= 1:
            return math.inf
        sums = self.sums(uploads)
        sums = sums._replace(
            precision=sums.precision * shares,
            least_multiplier=sums.least_multiplier / math.sqrt(shares),
        )
        return self._account.composed(method, sums, self.other_costs)

    @cached_property
    def allowance(self) -> Allowance:
        """The allowance that keeps `total_epsilon`; without one all may take part.

        A claim about the average (`Basis.central`) rests on a whole cohort's noise, so
        where a promise or `max_uploads` ends clients' turns its rounds need a whole
        cohort of those who may take part. The run ends when there is none.

        Raises:
          ValueError: the mechanism adds no noise, or the filter's events, or they and
            one upload, are too much already.
        """
        cap, limits = self._participation.max_uploads, self._limits()
        costs, budget = np.zeros_like(self.precision), 0
        if limits is not None:
            shares, uploads = limits
            unit = _UNITS // self._participation.num_rounds
            costs, budget = np.ceil(shares * unit), math.floor(uploads * unit)
        elif cap is not None:
            costs, budget = (self.precision > 0).astype(float), cap
        leaves = (costs, budget, self.least_cohort)
        return Allowance(*(np.asarray(leaf, np.int32) for leaf in leaves))

    @property
    def least_cohort(self) -> int:
        """So many clients must be able to take part, else a round has no cohort."""
        limits = self._terms.total_epsilon, self._participation.max_uploads
        thins = limits != (None, None)
        central = thins and self._account.mechanism.basis.central
        return self._participation.cohort_size if central else 1

    def _limits(self) -> tuple[np.ndarray, float] | None:
        """(T,) costs over the largest, and how many of the largest are allowed.

        None where a client keeps the promise whenever it uploads. By basic composition
        an upload costs the larger of its parts of what is left of ε and of Σδ < 1, by
        the others 1/z².
        """
        total, by = self._terms.total_epsilon, self._terms.total_accounting
        if total is None:
            return None
        if not np.all(np.isfinite(self.precision)):
            raise ValueError(
                f"total_epsilon = {total} cannot be promised: the mechanism adds no "
                "noise in proportion to a sensitivity; leave it out, or take a "
                "mechanism that does, as gaussian"
            )
        limit = total * (1 + _ROUNDING) if by == "basic" else total
        if self.promised(self.always) <= limit:
            return None
        cost, parts = self.other_costs, self.precision
        if by == "basic":
            rest_epsilon = max(limit - cost.basic_epsilon, _NO_ROOM)
            rest_delta = (1 - cost.delta) * (1 - _ROUNDING)
            epsilon = self.epsilon + self._account.release_epsilon
            parts = np.maximum(epsilon / rest_epsilon, self.delta / rest_delta)
        shares = parts / parts[-1] if math.isfinite(parts[-1]) else np.ones_like(parts)
        steps = 1 if shares.min() == 1 else _STEPS
        if by == "basic":
            fits = math.floor(1 / parts[-1] * steps) / steps
        else:
            numbers = range(1, math.ceil(shares.sum() * steps) + 1)
            num_steps = bisect.bisect_left(
                numbers, True, key=lambda number: self.promised(number / steps) > limit
            )
            fits = num_steps / steps
        if fits < 1:
            before = remedy = ""
            events = {
                "the influence filter": cost.passes,
                "the bounds of the schema": cost.bounds,
            }
            if names := " and ".join(filter(events.get, events)):
                before = f"{names} (ε = {self.promised(0):.4g}) and "
            if cost.passes:
                remedy = (
                    " or --contribution_noise, lower --vote_epsilon (votes without "
                    "one have no finite ε)"
                )
            raise ValueError(
                f"total_epsilon = {total} is less than {before}one upload costs by "
                f"{by} (its δ = {self.delta[-1]:.3g}); raise it{remedy}, add noise to "
                "each upload or lower delta, which is 1 / batch_size unless stated"
            )
        return shares, fits

    @property
    def most_uploads(self) -> int:
        """Uploads of a client that is asked in every round from the first on."""
        costs = np.cumsum(self.allowance.costs, dtype=np.int64)
        return int((costs <= self.allowance.budget).sum())

    @property
    def whole_rounds(self) -> int:
        """Rounds that the uploads of all clients fill, at most T: ⌈M · uploads / K⌉.

        Cohorts that are drawn may leave clients with a turn, and later rounds with few.
        """
        num_clients, cohort_size, num_rounds, *_ = self._participation
        return min(-(-self.most_uploads * num_clients // cohort_size), num_rounds)


def _total(values: np.ndarray, uploads: float | None) -> float:
    """The sum over one upload in every round, or over so many of the costliest."""
    total = float(values.sum())
    if uploads is None:
        return total
    return min(uploads * float(values[-1]), total) if uploads else 0.0
