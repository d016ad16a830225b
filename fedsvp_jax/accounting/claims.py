"""Claims: an ε with its adversary, its neighbouring relation and its assumptions."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.core.files import Record
from fedsvp_jax.mechanisms.base import NOTHING_ELSE

from . import Account, OtherCosts, SpendingPlan
from .composition import Sums
from .noise_ends import certain_chance
from .participation import ANY_CHANGE, SEED
from .views import AGGREGATED, AVERAGED, BYPASSED, SEEN, VIEWS


class Claim(NamedTuple):
    """An ε with all that it means; it is never printed without the rest."""

    adversary: str
    relation: str  # neighbouring relation
    method: str  # accounting
    epsilon: float  # of the client that spent most
    delta: float
    proved: bool  # false: nominal
    assumptions: str
    copies: int = 1  # of one record, which change at once under the relation

    @property
    def status(self) -> str:
        """proved or nominal."""
        return "proved" if self.proved else "nominal"


_FILTER_TOO = (
    "the influence filter's contributions and votes leave the client too, and are "
    f"counted here for {ANY_CHANGE}"
)
_TALLY = (
    "a tally: how often a client uploads follows the votes, so what was spent was not "
    "known before"
)
_PROMISED = "kept for every client, however often the others upload"
_BROKEN = "broken: uploads had less noise than the mechanism said before the run"
_REAL_NUMBERS = "noise is counted as real numbers, without float32's gaps and rounding"
_ROUNDING = 1e-5  # of what float32 numbers add up to, over the promise
_AT_THE_END = ("basic", "rdp", "pld")
METHODS = ("rdp", "pld")  # of every adversary's claims
NOTHING = dict.fromkeys(("epsilon", "delta", "status", "adversary", "relation"))


def meaning(row: Record, status: str | None = None) -> str:
    """`nominal; against: server; neighbours: replace one record of a client`.

    The words that stand beside a printed ε and its δ; empty where nothing is claimed.

    Args:
      row: with `adversary` and `relation`, as metrics.jsonl, results.jsonl,
        summary.json and its guarantees have them.
      status: proved or nominal.
    """
    texts = {
        "": status,
        "against: ": row.get("adversary"),
        "neighbours: ": row.get("relation"),
    }
    return "; ".join(f"{name}{text}" for name, text in texts.items() if text)


def adversary(account: Account, view: str | None = None) -> str:
    """The adversary's name in claims, by its view; by default the claim's own view."""
    return SEEN[view or account.view][0].format(account.participation.colluders)


def row(account: Account, *, last: bool) -> Record:
    """The privacy part of a line of metrics.jsonl: the client that spent most so far.

    Returns:
      `epsilon_spent` by accounting, and what it means: `status` by accounting,
      `delta_spent`, `target_delta`, `adversary` and `relation`; None where the
      mechanism claims nothing. PLD, which is slow, in the `last` line alone.
    """
    return _with_meaning(
        account,
        {name: account.epsilon_spent(name) for name in _AT_THE_END[: 2 + last]},
        account.delta_spent(),
        account.certain_chance(account.most_spent(account.view), account.other_costs),
    )


def planned_row(account: Account, uploads: int | None = None) -> Record:
    """`row` before the run, of a client that sends so many of the costliest uploads.

    None is one in every round.
    """
    plan = SpendingPlan(account)
    planned = dataclasses.replace(
        account, largest_claim=plan.epsilon.max(), passes=plan.other_costs.passes
    )
    return _with_meaning(
        planned,
        {name: plan.composed(name, uploads) for name in _AT_THE_END},
        plan.delta_of(uploads),
        account.certain_chance(plan.sums(uploads), plan.other_costs),
    )


def _with_meaning(
    account: Account, spent: dict[str, float], delta: float, certain: float
) -> Record:
    """What was spent and what it means; nominal where passes make it a tally."""
    target, status = account.terms.target_delta, {}
    for method, epsilon in spent.items():
        at = delta if method == "basic" else target
        proved = _is_proved(account, method, epsilon, at, certain)
        status[method] = "proved" if proved and not account.passes else "nominal"
    context = {
        "status": status,
        "delta_spent": delta,
        "target_delta": target,
        "adversary": adversary(account),
        "relation": account.mechanism.basis.relation,
    }
    if account.mechanism.basis.relation == "none":
        context = dict.fromkeys(context)
    return {"epsilon_spent": spent} | context


def _is_proved(
    account: Account, method: str, epsilon: float, delta: float, certain: float
) -> bool:
    """Whether an ε follows from the noise.

    Basic composition needs Σδ < 1, and an ε of each upload that its noise gives: the
    classical formula's holds below 1. The chance that noise ends, and so tells one
    neighbour for certain, must be δ at most.
    """
    sound = account.mechanism.basis.any_epsilon or account.largest_claim < 1
    sound = method != "basic" or (sound and delta < 1)
    return account.proved and sound and certain <= delta and math.isfinite(epsilon)


def of_upload(account: Account, epsilon: Any, delta: Any) -> Record:
    """The fields of `NOTHING`, of the largest ε and δ; None in all for no claim."""
    relation = account.mechanism.basis.relation
    if relation == "none":
        return NOTHING
    epsilon, delta = float(np.max(epsilon)), float(np.max(delta))
    z = float(np.min(account.mechanism.least_multiplier))
    sums = Sums(1, z**-2 if z > 0 else math.inf, epsilon, z)
    certain = account.certain_chance(sums, OtherCosts())
    single = dataclasses.replace(account, largest_claim=epsilon)
    proved = _is_proved(single, "basic", epsilon, delta, certain)
    status = "proved" if proved else "nominal"
    claim = (epsilon, delta, status, adversary(account), relation)
    return dict(zip(NOTHING, claim, strict=True))


def of_run(account: Account) -> Record:
    """The same of a client that uploads in every round, by Rényi DP.

    `upload_epsilon` is that of one upload with the least noise. Who sees less than the
    claim's adversary learns no more.
    """
    row = planned_row(account)
    status = row["status"] and row["status"]["rdp"]
    epsilon = status and row["epsilon_spent"]["rdp"]
    claim = (epsilon, row["target_delta"], status, row["adversary"], row["relation"])
    single = {"upload_epsilon": float(np.max(account.mechanism.most_epsilon))}
    return dict(zip(NOTHING, claim, strict=True)) | single


def by_adversary(account: Account) -> dict[str, float]:
    """ε by Rényi DP against each adversary, as the claims of `table` say it."""
    return {
        adversary(account, view): account.epsilon_spent("rdp", view=view)
        for view in views_of(account)
    }


def views_of(account: Account) -> list[str]:
    """The views against which anything is claimed."""
    basis = account.mechanism.basis
    if basis.relation == "none":
        return []
    return [view for view in SEEN if view != "server" or basis.against_server]


def table(account: Account, methods: Sequence[str] = METHODS) -> list[Claim]:
    """Every adversary's claim by every accounting, and the promise's.

    Args:
      account: after the last round.
      methods: of rdp, pld and gdp.

    Returns:
      In a fixed order: adversaries as in `views.SEEN`, amplified by sampling, promise.
    """
    claims = _spent_claims(account, methods)
    if account.passes:
        claims = [
            claim._replace(proved=False, assumptions=f"{claim.assumptions}; {_TALLY}")
            for claim in claims
        ]
    if (total := account.terms.total_epsilon) is not None:
        claims.append(_promise_claim(account, total))
    nothing = account.mechanism.basis.relation == "none"
    return [claim for claim in claims if not nothing or math.isfinite(claim.epsilon)]


def _assumptions(account: Account) -> str:
    text, participation = account.mechanism.basis.assumptions, account.participation
    if account.passes:
        text = text.replace(NOTHING_ELSE, _FILTER_TOO)
    exact = account.mechanism.basis.discrete and not account.passes
    real = "" if exact else _REAL_NUMBERS
    cost = participation.other_costs
    bought = ""
    if cost.bounds:
        bought = (
            f"the schema's {cost.bounds} bounds were bought at ε = "
            f"{cost.epsilon_per_bound:.3g} each, which is counted here; who bought "
            "them saw the table"
        )
    seed = "" if participation.secret_noise else SEED
    of_data = participation.assumptions, participation.nominal
    return "; ".join(filter(None, (text, real, bought, seed, *of_data)))


def _spent_claims(account: Account, methods: Sequence[str]) -> list[Claim]:
    """The claims of the uploads that were recorded, against every adversary."""
    basis, participation, claims = account.mechanism.basis, account.participation, []
    assumptions = _assumptions(account)
    for view, (_, sees) in SEEN.items():
        if not participation.averages_uploads:
            sees = sees.replace(AVERAGED, AGGREGATED)
        if view == "server" and basis.central:
            sees = BYPASSED
        text = f"{sees}; {assumptions}"
        if view == "server" and not basis.against_server:
            trusted = "the server is trusted: it sees more than noised uploads"
            claims.append(_claim(account, view, "none", math.inf, trusted))
            continue
        if view == account.view:
            basic_text = text
            if not (basis.any_epsilon or account.largest_claim < 1):
                basic_text += (
                    "; the classical formula, unproved at ε >= 1 for an upload"
                )
            spent, delta = account.epsilon_spent("basic"), account.delta_spent()
            claims.append(_claim(account, view, "basic", spent, basic_text, delta))
        for method in methods:
            epsilon = account.epsilon_spent(method, view=view)
            claims.append(_claim(account, view, method, epsilon, text))
        for method in methods if participation.copies > 1 else ():
            epsilon, certain = spent_by_copies(account, method, view)
            copies_text = f"{text}; none of these clients is the adversary"
            claim = _claim(account, view, method, epsilon, copies_text, certain=certain)
            copies = participation.copies
            relation = (
                f"{basis.relation}; for each of up to {copies} clients that hold a "
                "copy at once"
            )
            claims.append(claim._replace(relation=relation, copies=copies))
    amplified = _amplified_epsilon(account)
    if amplified is not None:
        text = (
            f"{AVERAGED}; does not know who took part: each cohort is a uniform draw "
            f"of {account.even_cohort} of {participation.num_clients}, kept secret; "
            f"{assumptions}"
        )
        method = "rdp, sampled without replacement"
        epsilon, certain = amplified
        claim = _claim(account, "observer", method, epsilon, text, certain=certain)
        claims.append(claim._replace(relation="replace a client"))
    return claims


def spent_by_copies(account: Account, method: str, view: str) -> tuple[float, float]:
    """ε if the data of k clients change at once, as they do with a common record (P18).

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
    seen = {view, "server"} if account.mechanism.basis.against_server else {view}
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


def _claim(
    account: Account,
    view: str,
    method: str,
    epsilon: float,
    assumptions: str,
    delta: float | None = None,
    certain: float | None = None,
) -> Claim:
    """A claim of what was spent, at `target_delta` unless δ is basic composition's."""
    at = account.terms.target_delta if delta is None else delta
    if certain is None:
        certain = account.certain_chance(account.most_spent(view), account.other_costs)
    if at < certain and account.proved and math.isfinite(epsilon):
        assumptions = (
            "nominal, because float32's noise ends at 9.155 standard deviations: with "
            f"a chance of {certain:.1g}, above δ = {at:.1g}, an output is one that "
            f"only one neighbour can have; {assumptions}"
        )
    proved = _is_proved(account, method, epsilon, at, certain)
    relation, name = account.mechanism.basis.relation, adversary(account, view)
    return Claim(name, relation, method, epsilon, at, proved, assumptions)


def _promise_claim(account: Account, total: float) -> Claim:
    """The promise's claim for the whole run; nominal once the promise is broken."""
    method = account.terms.total_accounting
    holds, delta = account.epsilon_spent(method) <= total * (1 + _ROUNDING), None
    if method == "basic":
        plan = SpendingPlan(account)
        delta = plan.delta_of(plan.most_uploads)
        holds &= account.delta_spent() <= delta * (1 + _ROUNDING)
    text = f"{_PROMISED if holds else _BROKEN}; {_assumptions(account)}"
    claim = _claim(account, account.view, method, total, text, delta)
    return claim._replace(method=f"promise by {method}", proved=claim.proved and holds)


def _amplified_epsilon(account: Account) -> tuple[float, float] | None:
    """ε with amplification by sampling, and the chance that the end of the noise tells
    one neighbour for certain; or None where it does not apply.

    Cohorts must be a uniform draw that nobody but the server sees, the same for all
    clients (so without caps, promise and filter), in which every client would weigh the
    same, drawn or not. Cohorts with and without a client differ by a *swap of clients*,
    so the gain needs a bound on that, which record-level sensitivities (2C/|D|,
    per-example) do not give. Weights and noise must be equal, else a swap changes them
    too.

    Source: Wang, Balle and Kasiviswanathan 2019 (arXiv 1808.00087), Theorem 27, by
    dp-accounting.
    """
    basis, participation = account.mechanism.basis, account.participation
    if (
        basis.client_swap is None
        or account.even_cohort < 2
        or not participation.equal_weights
        or account.passes
        or account.release_epsilon > 0
        or participation.max_uploads is not None
        or account.terms.total_epsilon is not None
    ):
        return None
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    multiplier = float(account.least[VIEWS.index("observer")]) / basis.client_swap
    if multiplier <= 0:
        return math.inf, 1.0
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        participation.num_clients,
        account.even_cohort,
        dp_accounting.GaussianDpEvent(multiplier),
    )
    accountant = RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    accountant.compose(event, account.rounds)
    epsilon = accountant.get_epsilon(account.terms.target_delta)
    rate = account.even_cohort / participation.num_clients
    return float(epsilon), certain_chance(multiplier, account.rounds, rate)


def summary(account: Account) -> Record:
    """The privacy part of summary.json: spent, by accounting and by adversary."""
    sampled, sums = account.mechanism.subsampling, account.most_spent(account.view)
    steps = sampled and sampled.steps(sums.least_multiplier, int(sums.uploads))
    cost = account.participation.other_costs
    bought = {"bounds_epsilon": cost.bounds * cost.epsilon_per_bound}
    return {
        **row(account, last=True),
        "most_uploads": int(account.uploads.max()),
        "release_epsilon": account.release_epsilon,
        "subsampling": sampled and sampled._asdict(),
        "sampled_steps": steps and [kind._asdict() for kind in steps],
        **(bought if cost.bounds else {}),
        "guarantees": [
            claim._asdict() | {"status": claim.status} for claim in table(account)
        ],
    }
