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
from typing import NamedTuple

import numpy as np

from fedsvp_jax.accounting.composition import composed_epsilon, largest_count
from fedsvp_jax.accounting.events import FilterCost
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, spends_release_budget
from fedsvp_jax.mechanisms.subsampling import SampledSteps, Subsampling
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
    budget: Array | np.ndarray  # () int32: the most that a client may spend
    least_cohort: Array | np.ndarray  # () int32: so many must be able to take part


class UploadCosts(NamedTuple):
    """The most that one upload of each round may cost; never falling."""

    precision: np.ndarray  # (T,) 1/z²
    epsilon: np.ndarray  # (T,) claimed
    delta: np.ndarray  # (T,) claimed
    release_epsilon: float  # ε_r; 0 where R is not told
    subsampling: Subsampling | None = None  # of Poisson batches


def release_epsilon(config: MechanismConfig, mechanism: Mechanism) -> float:
    """The budget that one upload spends on telling R; 0 where none is told."""
    told = mechanism.needs_contribution and spends_release_budget(config)
    return float(config.release_epsilon) if told else 0.0


def upload_costs(config: MechanismConfig, mechanism: Mechanism) -> UploadCosts:
    """What the mechanism says of its uploads, round by round.

    Where every upload releases R too, all cost as much as the costliest: a filter on
    two kinds of costs at once is proved for no accounting but the basic one. So do
    uploads of Poisson batches, whose costs are no numbers that add up. Where the
    number of uploads is limited, it is the only cost, and whatever costs does so.

    Args:
      config: the mechanism's settings, concrete, T among them.
      mechanism: made from them.
    """
    released, num_rounds = release_epsilon(config, mechanism), config.num_rounds

    def by_round(values: object) -> np.ndarray:
        found = np.broadcast_to(np.asarray(values, np.float64), (num_rounds,))
        if released > 0 or mechanism.subsampling is not None:
            return np.full(num_rounds, found.max())
        if config.max_uploads is not None:
            return np.where(found > 0, found.max(), 0.0)
        return np.maximum.accumulate(found)

    multiplier = np.asarray(mechanism.least_multiplier, np.float64)
    with np.errstate(divide="ignore"):
        precision = 1.0 / np.square(np.maximum(multiplier, 0.0))
    return UploadCosts(
        precision=by_round(precision),
        epsilon=by_round(mechanism.most_epsilon),
        delta=by_round(mechanism.most_delta),
        release_epsilon=released,
        subsampling=mechanism.subsampling,
    )


def planned_epsilon(
    promise: PromiseSettings,
    costs: UploadCosts,
    filter_cost: FilterCost,
    uploads: float | None = None,
) -> float:
    """ε of one client by `promise.total_accounting`, the filter's events included.

    Args:
      promise: how it is counted.
      costs: of the uploads.
      filter_cost: of the filter's planned passes.
      uploads: how many of the costliest uploads, in parts of one where R is not told;
        None for one upload in every round.

    Returns:
      ε; inf where Σδ of basic composition reaches 1.
    """

    def total(values: np.ndarray) -> float:
        if uploads is None:
            return float(values.sum())
        return uploads * float(values[-1]) if uploads else 0.0

    count = len(costs.epsilon) if uploads is None else uploads
    if promise.total_accounting == "basic":
        if total(costs.delta) + filter_cost.delta >= 1:
            return math.inf
        released = count * costs.release_epsilon
        return total(costs.epsilon) + released + filter_cost.basic_epsilon
    steps: tuple[SampledSteps | None, ...] = (None,)
    if costs.subsampling is not None:
        least = float(costs.precision[-1]) ** -0.5
        steps = costs.subsampling.steps(least, math.ceil(count))
    sampled = costs.subsampling is not None
    return max(
        composed_epsilon(
            promise.total_accounting,
            filter_cost.precision + (0 if sampled else total(costs.precision)),
            promise.target_delta,
            releases=math.ceil(count),
            release_epsilon=costs.release_epsilon,
            votes=filter_cost.votes,
            vote_epsilon=filter_cost.vote_epsilon,
            steps=one,
        )
        for one in steps
    )


def allowance(
    promise: PromiseSettings,
    config: MechanismConfig,
    mechanism: Mechanism,
    *,
    filter_cost: FilterCost | None = None,
) -> Allowance:
    """What keeps `promise.total_epsilon`; everybody may always take part without one.

    A claim about the average (`Claim.central`) rests on a whole cohort's noise, so its
    rounds need a whole cohort of clients who may take part. The run ends when there
    is none.

    Args:
      promise: ε of the run and how it is counted.
      config: the mechanism's settings, concrete, T among them.
      mechanism: made from them.
      filter_cost: of the influence filter's planned passes; None without a filter.

    Raises:
      ValueError: the mechanism adds no noise, or the filter's events, or they and one
        upload, are too much already.
    """
    num_rounds = config.num_rounds
    cap = config.max_uploads
    costs = upload_costs(config, mechanism)
    if promise.total_epsilon is None:
        return _at_most(cap, costs, 1)
    filter_cost = filter_cost or FilterCost()
    check_filter(promise, filter_cost)
    if not np.all(np.isfinite(costs.precision)):
        raise ValueError(
            f"total_epsilon = {promise.total_epsilon} cannot be promised: the "
            "mechanism adds no noise in proportion to a sensitivity"
        )
    least = config.cohort_size if mechanism.claim.central else 1
    limit = promise.total_epsilon
    if promise.total_accounting == "basic":
        limit *= 1 + _ROUNDING
    uploads = None if cap is None else min(cap, num_rounds)
    if planned_epsilon(promise, costs, filter_cost, uploads) <= limit:
        return _at_most(cap, costs, least)
    if promise.total_accounting == "basic":
        shares, fits = _fitting_claims(costs, filter_cost, limit)
    else:
        shares, fits = _fitting_noise(promise, costs, filter_cost)
    if fits < 1:
        _refuse_upload(promise, costs, filter_cost)
    unit = _UNITS // num_rounds
    return _allowance(np.ceil(shares * unit), math.floor(fits * unit), least)


def _at_most(cap: int | None, costs: UploadCosts, least_cohort: int) -> Allowance:
    """Everybody may take part, where `cap` is given in so many rounds that cost."""
    if cap is None:
        return _allowance(np.zeros_like(costs.precision), 0, least_cohort)
    return _allowance((costs.precision > 0).astype(float), cap, least_cohort)


def _fitting_claims(
    costs: UploadCosts, filter_cost: FilterCost, limit: float
) -> tuple[np.ndarray, float]:
    """(T,) costs over the largest, and how many of the largest are allowed by claims.

    An upload's cost is the larger of its parts of what is left of ε and of Σδ < 1.
    """
    left = limit - filter_cost.basic_epsilon, (1 - filter_cost.delta) * (1 - _ROUNDING)
    parts = np.maximum(
        (costs.epsilon + costs.release_epsilon) / left[0], costs.delta / left[1]
    )
    if not math.isfinite(parts[-1]):
        return np.ones_like(parts), 0
    shares = parts / parts[-1]
    return shares, math.floor(1 / parts[-1] * _steps(shares)) / _steps(shares)


def _fitting_noise(
    promise: PromiseSettings, costs: UploadCosts, filter_cost: FilterCost
) -> tuple[np.ndarray, float]:
    """(T,) 1/z² over the largest, and how many of the largest are allowed together."""
    shares = costs.precision / costs.precision[-1]
    steps = _steps(shares)

    def keeps(parts: int) -> bool:
        spent = planned_epsilon(promise, costs, filter_cost, parts / steps)
        return spent <= (promise.total_epsilon or 0)

    return shares, largest_count(keeps, math.ceil(shares.sum() * steps)) / steps


def _steps(shares: np.ndarray) -> int:
    """Into how many parts an upload is divided; none where all cost the same."""
    return 1 if shares.min() == 1 else _STEPS


def _allowance(costs: np.ndarray, budget: int, least_cohort: int) -> Allowance:
    leaves = (costs, budget, least_cohort)
    return Allowance(*(np.asarray(leaf, np.int32) for leaf in leaves))


def _refuse_upload(
    promise: PromiseSettings, costs: UploadCosts, filter_cost: FilterCost
) -> None:
    """Raises ValueError: not even one upload can be promised."""
    by = promise.total_accounting
    if by == "basic" and costs.delta[-1] + filter_cost.delta >= 1:
        raise ValueError(
            "total_epsilon cannot be promised by basic composition: one upload claims "
            f"δ = {costs.delta[-1]:.3g}; a smaller --delta is needed"
        )
    before = ""
    if filter_cost.passes:
        spent = planned_epsilon(promise, costs, filter_cost, 0)
        before = f"the influence filter (ε = {spent:.4g}) and "
    raise ValueError(
        f"total_epsilon = {promise.total_epsilon} is less than {before}one upload "
        f"costs by {by}; raise it or add noise to each upload"
    )


def most_uploads(found: Allowance) -> int:
    """How often a client may upload that is asked in every round from the first on."""
    return int((np.cumsum(found.costs, dtype=np.int64) <= found.budget).sum())


def promised_delta(
    promise: PromiseSettings,
    config: MechanismConfig,
    mechanism: Mechanism,
    filter_cost: FilterCost,
) -> float:
    """The largest Σδ that a promise by basic composition lets one client claim.

    Args:
      promise, config, mechanism: as in `allowance`.
      filter_cost: of the influence filter's passes.
    """
    found = allowance(promise, config, mechanism, filter_cost=filter_cost)
    costs = upload_costs(config, mechanism)
    return most_uploads(found) * float(costs.delta[-1]) + filter_cost.delta


def check_filter(promise: PromiseSettings, cost: FilterCost) -> None:
    """Refuses a promise that the influence filter's events alone would break.

    Raises:
      ValueError: what they cost, and which setting to change.
    """
    if promise.total_epsilon is None or cost.passes == 0:
        return
    nothing = UploadCosts(np.zeros(1), np.zeros(1), np.zeros(1), 0.0)

    def spent(cost: FilterCost) -> float:
        return planned_epsilon(promise, nothing, cost, 0)

    whole = spent(cost)
    if whole < promise.total_epsilon:
        return
    contributions = spent(cost._replace(votes_per_pass=0))
    votes = spent(FilterCost(1, math.inf, 0.0, 0.0, cost.votes, cost.vote_epsilon))
    if cost.passes > 1 and math.isinf(votes):
        change = (
            f"votes that may change between {cost.passes} passes have no finite ε; "
            "take influence_filter=join"
        )
    elif math.isinf(votes):
        change = "votes that are not randomised have no finite ε; set --vote_epsilon"
    elif contributions >= votes:
        change = "raise it or --contribution_noise"
    else:
        change = "raise it or lower --vote_epsilon"
    raise ValueError(
        f"total_epsilon = {promise.total_epsilon} is not more than what the influence "
        f"filter costs a client by {promise.total_accounting} before the first upload, "
        f"ε = {whole:.4g} (contributions {contributions:.4g}, votes {votes:.4g}): "
        f"{change}"
    )
