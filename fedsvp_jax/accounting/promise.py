"""How much a client may spend: a promise as a filter on who may take part.

Each upload has a cost that is known before its round, and a client takes part while
the sum of its costs stays within a budget. Whoever takes part may depend on all that
was released, since costs add up to at most the budget in any case: a privacy filter
(Rogers et al. 2016 for basic composition; Feldman and Zrnic 2021 for RDP; Smith and
Thakurta 2022 and Koskela et al. 2023 for Gaussians). With equal costs it is a cap on
the number of uploads.

The influence filter sends its contributions and votes before the uploads that it
decides about. They are charged first; the uploads have the rest.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedsvp_jax.accounting.composition import Sums, largest_count
from fedsvp_jax.accounting.participation import FilterCost
from fedsvp_jax.accounting.recorded import Recorded
from fedsvp_jax.structs import Array

_ROUNDING = 1e-6  # an ε of float32 may lie above the number that was asked for
_STEPS = 1024  # parts of an upload to which an uneven budget is found
_UNITS = 2**30  # what T of the costliest uploads cost in int32


class Allowance(NamedTuple):
    """Who may take part: a client whose cost and sum of costs fit in the budget.

    Costs never fall from round to round, so whoever may not take part once, never
    may again.
    """

    costs: Array | np.ndarray  # (T,) int32: of an upload in each round
    budget: Array | np.ndarray  # () or (M,) int32: the most that a client may spend
    least_cohort: Array | np.ndarray  # () int32: so many must be able to take part


class Plan:
    """What a run may spend, by what its mechanism says of every round's uploads.

    The dry run shows it, the solver solves it and a promise keeps it: what is recorded
    is never more. It is about the claim's adversary, and of a claim about the average
    about whole cohorts.

    Costs never fall from round to round. Where every upload releases R too, all cost as
    much as the costliest: a filter on two kinds of costs at once is proved for no
    accounting but the basic one. So do uploads of Poisson batches, whose costs are no
    numbers that add up. Where the number of uploads is limited, it is the only cost,
    and whatever costs does so.

    Args:
      account: of the run, whose mechanism has concrete settings.

    Attributes:
      precision: (T,) 1/z², the most that an upload of each round may cost.
      epsilon, delta: (T,) claimed, likewise.
      filter_cost: of the influence filter's planned passes.
    """

    def __init__(self, account: Recorded) -> None:
        self._account = account
        self._terms, self._who = account.terms, account.participation
        self.filter_cost = self._who.filter_cost
        mechanism = account.mechanism
        multiplier = np.asarray(mechanism.least_multiplier, np.float64)
        with np.errstate(divide="ignore"):
            precision = 1.0 / np.square(np.maximum(multiplier, 0.0))
        self.precision, self.epsilon, self.delta = map(
            self._by_round, (precision, mechanism.most_epsilon, mechanism.most_delta)
        )

    def _by_round(self, values: object) -> np.ndarray:
        account, rounds = self._account, (self._who.num_rounds,)
        found = np.broadcast_to(np.asarray(values, np.float64), rounds)
        if account.release_epsilon > 0 or account.mechanism.subsampling is not None:
            return np.full(rounds, found.max())
        if self._who.max_uploads is not None:
            return np.where(found > 0, found.max(), 0.0)
        return np.maximum.accumulate(found)

    @property
    def always(self) -> int | None:
        """Uploads of a client that uploads whenever it may; None: in every round."""
        cap = self._who.max_uploads
        return None if cap is None else min(cap, self._who.num_rounds)

    def sums(self, uploads: float | None) -> Sums:
        """Of so many of the costliest uploads; None for one in every round."""
        return Sums(
            self._who.num_rounds if uploads is None else uploads,
            _total(self.precision, uploads),
            _total(self.epsilon, uploads),
            float(self.precision[-1]) ** -0.5 if self.precision[-1] else math.inf,
        )

    def delta_of(self, uploads: float | None) -> float:
        """Σδ, at which basic composition holds."""
        return _total(self.delta, uploads) + self.filter_cost.delta

    def promised(
        self, uploads: float | None, filter_cost: FilterCost | None = None
    ) -> float:
        """ε as the promise counts it; inf where Σδ of basic composition reaches 1.

        Args:
          uploads: as in `sums`.
          filter_cost: in the place of the planned one.
        """
        cost = filter_cost or self.filter_cost
        method = self._terms.total_accounting
        if method == "basic" and _total(self.delta, uploads) + cost.delta >= 1:
            return math.inf
        return self._account.composed(method, self.sums(uploads), cost)

    @cached_property
    def allowance(self) -> Allowance:
        """What keeps `total_epsilon`; everybody may always take part without one.

        A claim about the average (`Basis.central`) rests on a whole cohort's noise, so
        where a promise or `max_uploads` ends clients' turns its rounds need a whole
        cohort of those who may take part. The run ends when there is none.

        Raises:
          ValueError: the mechanism adds no noise, or the filter's events, or they and
            one upload, are too much already.
        """
        if self._account.promised:
            return _of_all([Plan(one) for one in self._account.parts], self._account)
        least, found = self.least_cohort, self.limits
        if found is None:
            return self._at_most(least)
        shares, fits = found
        unit = self._unit
        return _allowance(np.ceil(shares * unit), math.floor(fits * unit), least)

    @property
    def least_cohort(self) -> int:
        """So many must be able to take part for a round to have a cohort."""
        limited = self._terms.total_epsilon, self._who.max_uploads
        thins = any(limit is not None for limit in limited)
        central = thins and self._account.mechanism.claim.central
        return self._who.cohort_size if central else 1

    @property
    def _unit(self) -> int:
        """What the costliest upload costs, in int32."""
        return _UNITS // self._who.num_rounds

    @cached_property
    def limits(self) -> tuple[np.ndarray, float] | None:
        """(T,) costs over the largest, and how many of the largest are allowed.

        None where a client keeps the promise whenever it uploads.

        Raises:
          ValueError: as `allowance`.
        """
        total = self._terms.total_epsilon
        if total is None:
            return None
        self.check_filter()
        if not np.all(np.isfinite(self.precision)):
            raise ValueError(
                f"total_epsilon = {total} cannot be promised: the mechanism adds no "
                "noise in proportion to a sensitivity"
            )
        limit = total
        if self._terms.total_accounting == "basic":
            limit *= 1 + _ROUNDING
        if self.promised(self.always) <= limit:
            return None
        if self._terms.total_accounting == "basic":
            shares, fits = self._fitting_claims(limit)
        else:
            shares, fits = self._fitting_noise(limit)
        if fits < 1:
            self._refuse_upload()
        return shares, fits

    def _at_most(self, least_cohort: int) -> Allowance:
        """All may take part, where uploads are limited in so many rounds that cost."""
        cap = self._who.max_uploads
        if cap is None:
            return _allowance(np.zeros_like(self.precision), 0, least_cohort)
        return _allowance((self.precision > 0).astype(float), cap, least_cohort)

    def _fitting_claims(self, limit: float) -> tuple[np.ndarray, float]:
        """(T,) costs over the largest, and how many of the largest are allowed.

        An upload's cost is the larger of its parts of what is left of ε and of Σδ < 1.
        """
        cost = self.filter_cost
        left = limit - cost.basic_epsilon, (1 - cost.delta) * (1 - _ROUNDING)
        claimed = self.epsilon + self._account.release_epsilon
        parts = np.maximum(claimed / left[0], self.delta / left[1])
        if not math.isfinite(parts[-1]):
            return np.ones_like(parts), 0
        shares = parts / parts[-1]
        return shares, math.floor(1 / parts[-1] * _steps(shares)) / _steps(shares)

    def _fitting_noise(self, limit: float) -> tuple[np.ndarray, float]:
        """(T,) 1/z² over the largest, and how many of the largest are allowed."""
        shares = self.precision / self.precision[-1]
        steps = _steps(shares)

        def keeps(parts: int) -> bool:
            return self.promised(parts / steps) <= limit

        return shares, largest_count(keeps, math.ceil(shares.sum() * steps)) / steps

    def _refuse_upload(self) -> None:
        """Raises ValueError: not even one upload can be promised."""
        by, cost = self._terms.total_accounting, self.filter_cost
        if by == "basic" and self.delta_of(1) >= 1:
            raise ValueError(
                "total_epsilon cannot be promised by basic composition: one upload "
                f"claims δ = {self.delta[-1]:.3g}; a smaller --delta is needed"
            )
        before = ""
        if cost.passes:
            before = f"the influence filter (ε = {self.promised(0):.4g}) and "
        raise ValueError(
            f"total_epsilon = {self._terms.total_epsilon} is less than {before}one "
            f"upload costs by {by}; raise it or add noise to each upload"
        )

    @property
    def most_uploads(self) -> int:
        """Of a client that is asked in every round from the first on."""
        costs = np.cumsum(self.allowance.costs, dtype=np.int64)
        return int((costs <= self.allowance.budget).sum())

    def check_filter(self) -> None:
        """Refuses a promise that the influence filter's events alone would break.

        Raises:
          ValueError: what they cost, and which setting to change.
        """
        total, cost = self._terms.total_epsilon, self.filter_cost
        if total is None or cost.passes == 0:
            return
        whole = self.promised(0)
        if whole < total:
            return
        contributions = self.promised(0, cost._replace(votes_per_pass=0))
        alone = FilterCost(1, math.inf, 0.0, 0.0, cost.votes, cost.vote_epsilon)
        votes = self.promised(0, alone)
        if cost.passes > 1 and math.isinf(votes):
            change = (
                f"votes that may change between {cost.passes} passes have no finite ε; "
                "take influence_filter=join"
            )
        elif math.isinf(votes):
            change = (
                "votes that are not randomised have no finite ε; set --vote_epsilon"
            )
        elif contributions >= votes:
            change = "raise it or --contribution_noise"
        else:
            change = "raise it or lower --vote_epsilon"
        raise ValueError(
            f"total_epsilon = {total} is not more than what the influence filter costs "
            f"a client by {self._terms.total_accounting} before the first upload, "
            f"ε = {whole:.4g} (contributions {contributions:.4g}, votes {votes:.4g}): "
            f"{change}"
        )


def _of_all(plans: Sequence[Plan], account: Recorded) -> Allowance:
    """One allowance for clients with an ε of their own, with a budget (M,) each.

    All pay the same costs: in each round the largest share that any of the promises
    gives it, at which each client's own costs are no more.
    """
    first, limits = plans[0], [plan.limits for plan in plans]
    limited = [found[0] for found in limits if found is not None]
    free, cap = first._at_most(first.least_cohort), account.participation.max_uploads
    costs, unlimited = np.asarray(free.costs), int(free.budget)
    if limited:
        costs = np.ceil(np.max(limited, axis=0) * first._unit)
        unlimited = int(costs.sum()) if cap is None else cap * first._unit
    budget = np.zeros(account.participation.num_clients)
    for promised, found in zip(account.promised, limits, strict=True):
        budget[list(promised.clients)] = (
            unlimited if found is None else math.floor(found[1] * first._unit)
        )
    return _allowance(costs, budget, first.least_cohort)


def _total(values: np.ndarray, uploads: float | None) -> float:
    """Of one upload in every round, or of so many of the costliest if that is less."""
    whole = float(values.sum())
    if uploads is None:
        return whole
    return min(uploads * float(values[-1]), whole) if uploads else 0.0


def _steps(shares: np.ndarray) -> int:
    """Into how many parts an upload is divided; none where all cost the same."""
    return 1 if shares.min() == 1 else _STEPS


def _allowance(
    costs: np.ndarray, budget: int | np.ndarray, least_cohort: int
) -> Allowance:
    leaves = (costs, budget, least_cohort)
    return Allowance(*(np.asarray(leaf, np.int32) for leaf in leaves))
