"""One promise for all that leaves a client: what fits in it, and what is refused."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import Book, record
from promised import Played, told, uploads_in_a_row

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import (
    Account,
    Allowance,
    OtherCosts,
    Participation,
    claims,
)
from fedsvp_jax.accounting.promise import SpendingPlan
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.core.settings import part
from fedsvp_jax.influence import privacy
from fedsvp_jax.influence.settings import FilterSettings
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.mechanisms.base import free_before

NOISY = [name for name in mechanisms.mechanism_names() if name != "none"]
RELEASES = ("raw", "worst_case", "laplace", "randomized_response")
ROUNDS, CLIENTS = 24, 6
TOTALS = {"basic": 1.0, "rdp": 0.6, "pld": 0.6}  # two to four uploads
SET_UP: dict[str, Any] = {"num_rounds": ROUNDS, "min_num_examples": 2000.0}
SET_UP |= {"delta": 1e-3, "epsilon": 0.3, "release_epsilon": 0.05}
OWN = {  # about ε = .3 per upload, as the others
    "dp_fedavg": {"noise_multiplier": 13.0},
    "time_varying": {"decay": 0.95},
    "dpa": {"contraction": 0.85},
    "poisson": {"epsilon": 16.0, "clipping": "per_example", "batches": "poisson"}
    | {"relation": "add_remove", "max_num_examples": 2000},
}


def filter_cost(**changes: Any) -> OtherCosts:
    """A pass that leaves most of `TOTALS` to the uploads."""
    noise = {"vote_epsilon": 0.04, "contribution_noise": 60.0}
    settings = FilterSettings(**{n: changes.pop(n, v) for n, v in noise.items()})
    who = {"num_participants": CLIENTS, "delta": 1e-5} | changes
    return privacy.filter_cost(settings, **who)


def case(*told: Any) -> Any:
    """By PLD (half a second each) the fast suite has one mechanism of each kind."""
    name, release, _, size, method = told
    quick = name in ("nbafl", "dpa", "dp_fedavg", "fedsva") and size < CLIENTS
    quick &= release in ("worst_case", "randomized_response")
    slow = method == "pld" and not quick
    return pytest.param(*told, marks=[pytest.mark.slow] if slow else [])


CASES = [
    case(*told)
    for told in itertools.product(NOISY, RELEASES, (False, True), (2, CLIENTS), TOTALS)
    if told[0] in ("fedsva", "fedsdp") or told[1] == "worst_case"
]
CASES += [("poisson", "worst_case", False, 2, method) for method in ("rdp", "pld")]


@pytest.mark.hole
@pytest.mark.parametrize(("name", "release", "filtered", "size", "method"), CASES)
def test_the_promise_is_kept_and_one_upload_more_would_break_it(
    name: str, release: str, filtered: bool, size: int, method: str
) -> None:
    total = TOTALS[method]
    played = Played(
        "gaussian" if name == "poisson" else name,
        PromiseSettings(total_epsilon=total, total_accounting=method),
        num_clients=CLIENTS,
        other_costs=filter_cost() if filtered else None,
        cohort_size=size,
        contribution_release=release,
        **(SET_UP | OWN.get(name, {})),
    )
    uploads = played.account.uploads
    assert uploads.max() >= 1 and played.rounds < ROUNDS  # the promise ended the run
    assert played.spent() <= total * (1 + 1e-6)
    *_, before = claims.table(played.account, methods=())
    everybody = np.arange(CLIENTS)
    played.upload(everybody[: size if played.mechanism.basis.central else CLIENTS])
    assert played.spent() > total
    *_, after = claims.table(played.account, methods=())
    assert before.assumptions.startswith("kept for every client")
    assert before.proved == played.account.proved
    assert after.assumptions.startswith("broken") and not after.proved


def plan_of(
    promise: PromiseSettings,
    config: MechanismConfig,
    mechanism: Mechanism,
    other_costs: OtherCosts | None = None,
) -> SpendingPlan:
    who = part(Participation, config, other_costs=other_costs or OtherCosts())
    return SpendingPlan(Account.of(mechanism, who, promise))


def allowed(name: str, promise: PromiseSettings, **changes: Any) -> Allowance:
    """The allowance of a mechanism over 500 rounds at the published ε = .2."""
    cost = changes.pop("other_costs", None)
    config, mechanism = told(name, **({"num_rounds": 500, "delta": 1e-3} | changes))
    return plan_of(promise, config, mechanism, other_costs=cost).allowance


def test_deltas_of_basic_composition_stay_below_one() -> None:
    promise = PromiseSettings(total_epsilon=50.0, total_accounting="basic")
    for cost, uploads in ((None, 39), (filter_cost(delta=0.03), 38)):
        found = allowed("nbafl", promise, delta=0.025, other_costs=cost)
        assert uploads_in_a_row(found) == uploads  # one more would have Σδ = 1


@pytest.mark.parametrize("method", ["basic", "rdp"])
def test_costs_by_round_allow_more_than_a_cap_at_the_least_noise(method: str) -> None:
    """Time-Varying DP's last upload costs 4 times its mean; a cap counted it so."""
    promise = PromiseSettings(total_epsilon=4.0, total_accounting=method)
    found = allowed("time_varying", promise, decay=0.995, epsilon=0.2)
    costs = np.asarray(found.costs, float)
    cap = int(found.budget) // int(costs.max())
    assert uploads_in_a_row(found) > 2 * cap
    assert np.all(np.diff(costs) >= 0)
    assert costs.sum() > found.budget


def test_costs_are_rounded_up_and_the_budget_down() -> None:
    """Three rounds of z = 3, 2.5 and 2, whose whole costs are parts of 2^30 // 3."""
    config, mechanism = told("nbafl", num_rounds=3, delta=1e-3)
    uneven = mechanism._replace(least_multiplier=np.asarray([3.0, 2.5, 2.0]))
    plan = plan_of(PromiseSettings(total_epsilon=2.5), config, uneven)
    found, unit = plan.allowance, 2**30 // 3
    exact = [Fraction(unit * 4, 9), Fraction(unit * 16, 25), Fraction(unit)]
    assert found.costs.tolist() == [*map(math.ceil, exact)]
    parts = round(int(found.budget) / unit * 1024)
    assert found.budget == math.floor(Fraction(parts, 1024) * unit)
    assert plan.promised(parts / 1024) <= 2.5 < plan.promised((parts + 1) / 1024)


@pytest.mark.parametrize(
    ("name", "changes", "first"),
    [
        ("nbafl", {}, 1 / 900),
        ("nbafl", {"max_uploads": 3}, 0.01),
        ("fedsva", {"contribution_release": "laplace"}, 0.01),
    ],
)
def test_costs_never_fall_and_are_the_costliest_s_where_uploads_are_numbered(
    name: str, changes: dict[str, Any], first: float
) -> None:
    """So whoever may not take part once never may again, and the run can end."""
    config, mechanism = told(name, num_rounds=4, delta=1e-3, **changes)
    uneven = mechanism._replace(least_multiplier=np.asarray([30.0, 10.0, 20.0, 40.0]))
    costs = plan_of(PromiseSettings(), config, uneven)
    np.testing.assert_allclose(costs.precision, [first, 0.01, 0.01, 0.01])
    assert uneven.release_epsilon == (config.release_epsilon if name == "fedsva" else 0)
    if "max_uploads" in changes:
        costs = plan_of(PromiseSettings(), config, free_before(uneven, 2, 4))
        np.testing.assert_allclose(costs.precision, [0, 0, 1 / 400, 1 / 400])
        for values in (costs.epsilon, costs.delta):
            assert not np.any(values[:2]) and np.all(values[2:] == values.max())


NO_NOISE = "the mechanism adds no noise in proportion to a sensitivity"
BY_BASIC = {"total_accounting": "basic"}
# What is told beside 2.0 by rdp of nbafl, and what is then said.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "dp_fedavg", "noise_multiplier": 0.0}, NO_NOISE),
    ({"total_epsilon": 1e-3}, "total_epsilon = 0.001 is less than one upload costs by"),
    (
        BY_BASIC | {"name": "fedsva", "noise_floor": 1e-3, "delta": 0.999},
        r"one upload costs by basic \(its δ = 1\..* or lower delta",
    ),
    (
        {"other_costs": filter_cost(), "total_epsilon": 0.2},
        r"less than the influence filter \(ε = 0\.1.*\) and one upload costs by rdp",
    ),
    ({"other_costs": filter_cost(vote_epsilon=math.inf)}, r"ε = inf\).*votes without"),
    (
        {"other_costs": filter_cost(contribution_noise=0.0)},
        r"ε = inf\) .* raise it or --contribution_noise",
    ),
    (
        BY_BASIC | {"other_costs": filter_cost(num_participants=100, vote_epsilon=1.0)},
        r"filter \(ε = 49\.[5-9].* lower --vote_epsilon",
    ),
]


@pytest.mark.hole
@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=str)
def test_what_cannot_be_promised_is_refused_in_a_sentence(
    changes: dict[str, Any], message: str
) -> None:
    told = {"name": "nbafl", "total_epsilon": 2.0} | changes
    terms = {key: told.pop(key) for key in ("total_epsilon", *BY_BASIC) if key in told}
    with pytest.raises(ValueError, match=message):
        allowed(promise=PromiseSettings(**terms), **told)


@pytest.mark.parametrize(
    ("total", "cap", "uploads"),
    [(None, None, ROUNDS), (None, 2, 2), (0.6, 2, 2), (50.0, 2, 2)],
)
def test_a_limit_on_uploads_holds_with_and_without_a_promise(
    total: float | None, cap: int | None, uploads: int
) -> None:
    found = allowed(
        "nbafl", PromiseSettings(total_epsilon=total), **SET_UP, max_uploads=cap
    )
    assert uploads_in_a_row(found) == uploads and found.least_cohort == 1
    assert np.any(found.costs) == (cap is not None)


@pytest.mark.hole
@pytest.mark.parametrize("size", [4, 5])
def test_a_limit_on_uploads_needs_whole_cohorts_for_a_claim_about_them(
    size: int,
) -> None:
    """A dry run said 2.46, proved, and the last two clients had spent 2.99."""
    told = {"noise_multiplier": 4.0, "max_uploads": 2, "num_rounds": 6, "delta": 1e-5}
    promise = PromiseSettings()
    played = Played("dp_fedavg", promise, num_clients=7, cohort_size=size, **told)
    assert set(played.sizes) == {size} and played.rounds < 6
    plan = SpendingPlan(played.account)
    for method in ("basic", "rdp"):
        planned = claims.planned_row(played.account, plan.always)["epsilon_spent"]
        assert played.account.epsilon_spent(method) <= planned[method] * (1 + 1e-5)


@pytest.mark.hole
def test_a_promise_of_the_average_says_what_a_curious_client_sees() -> None:
    """A promise of 2 was called kept against all who see the average."""
    _, mechanism = told("dp_fedavg", cohort_size=2, noise_multiplier=10.0)
    book = Book(2, mechanism)
    z = 10.0 / np.sqrt(2)
    for _ in range(25):
        record(book, [0, 1], multiplier=z, std=z, weights=0.5)
    views = ("observer", "curious_client")
    spent = [book.epsilon_spent("pld", 1e-5, view=view) for view in views]
    assert spent == pytest.approx([2.0, 2.95], abs=0.05)


CLIPPED = {"clipping": "update_clip", "relation": "add_remove", "delta": 1e-5}
SHARED = {"calibration": "analytic", "noise_trust": "secure_aggregation"}
THINNED: dict[str, tuple[str, dict[str, Any]]] = {
    "a cohort's sum": ("dp_fedavg", {"noise_multiplier": 2.0}),
    "shared noise": ("nbafl", {"epsilon": 0.9, "colluders": 2} | SHARED | CLIPPED),
    "every upload": ("nbafl", {"epsilon": 0.9} | CLIPPED),
}


@pytest.mark.hole
@pytest.mark.parametrize("kind", THINNED)
@pytest.mark.parametrize("cohorts", ["drawn", "cyclic"])
@pytest.mark.parametrize("filtered", [False, True])
@given(seed=st.integers(0, 2**31), share=st.sampled_from([0.5, 0.8, 0.95]))
@settings(max_examples=8, deadline=None)
def test_a_proved_promise_survives_whatever_thins_the_cohorts(
    kind: str, cohorts: str, filtered: bool, seed: int, share: float
) -> None:
    """Before, turns of 2 and 3 admitted clients uploaded under a promise made for 4.

    Who is admitted changes from round to round, in whatever way.
    """
    rng = np.random.default_rng(seed)
    name, own = THINNED[kind]
    total, size, clients = 4.0, 4, 12
    cost = OtherCosts(1, 60.0, 0.1, 1e-6, clients - 1, 0.01)
    found = Played(
        *(name, PromiseSettings(total_epsilon=total)),
        other_costs=cost if filtered else None,
        admitted=lambda round_num: rng.random(clients) < share,
        **own | {"cohort_size": size, "num_rounds": 9, "cohorts": cohorts},
        num_clients=clients,
    )
    assert found.account.proved
    assert found.spent() <= total
    least = size if found.mechanism.basis.central else 1
    assert all(one == 0 or one >= least for one in found.sizes)
