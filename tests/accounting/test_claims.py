"""What a run says of the ε that it spent."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from ledgers import Book, record
from published import make
from small_runs import digits, small

from fedsvp_jax import federation
from fedsvp_jax.accounting import (
    Account,
    OtherCosts,
    Participation,
    claims,
    composed_epsilon,
)
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.federation.budget import account_of
from fedsvp_jax.influence import privacy
from fedsvp_jax.influence.settings import FilterSettings
from fedsvp_jax.mechanisms import base
from fedsvp_jax.mechanisms.calibration import concentrated_epsilon

CLIPPED = {"clipping": "update_clip"}


def before(**changes: Any) -> Account:
    """The account of a run of nbafl before its first round."""
    run = small(mechanism="nbafl", num_hbc_clients=0, num_rounds=1000, **changes)
    return account_of(run, make("nbafl", **CLIPPED), assumptions="as dealt")


def test_what_makes_a_run_nominal_stands_in_every_row() -> None:
    account = before(**CLIPPED)
    who = account.participation._replace(nominal="nominal: statistics leave")
    other = dataclasses.replace(account, participation=who)
    assert account.mechanism.basis.proved
    assert account.proved and not other.proved
    for row in claims.table(other):
        assert row.status == "nominal" and row.assumptions.endswith(who.nominal)


@pytest.mark.hole
def test_one_upload_is_proved_where_bound_and_formula_are() -> None:
    clipped = make("nbafl", **CLIPPED)
    for mechanism, epsilon, word in (
        (make("none"), np.inf, None),
        (make("nbafl"), 0.3, "nominal"),
        (clipped, 0.3, "proved"),
        (clipped, 1.0, "nominal"),
        (make("nbafl", calibration="analytic", **CLIPPED), 2.0, "proved"),
        (clipped, np.inf, "nominal"),
    ):
        account = Account.of(mechanism, Participation())
        assert claims.of_upload(account, epsilon, 1e-3)["status"] == word
    for delta, why in ((0.99, "nominal: statistics leave"), (1.0, "")):
        account = Account.of(clipped, Participation(nominal=why))
        assert claims.of_upload(account, 0.3, delta)["status"] == "nominal"


def test_pld_is_composed_in_the_last_round_alone() -> None:
    account = Book(7, proved=True).account
    for last in (False, True):
        row = claims.row(account, last=last)
        assert ("pld" in row["epsilon_spent"]) == ("pld" in row["status"]) == last


def test_each_adversary_s_number_in_a_row_is_that_of_its_claim() -> None:
    book = Book(7, proved=True)
    record(book, [1, 2, 3], multiplier=[3.0, 4.0, 5.0], weights=1 / 3)
    claimed = claims.table(book.account, methods=("rdp",))
    rows = {one.adversary: one.epsilon for one in claimed if one.method == "rdp"}
    assert claims.by_adversary(book.account) == rows and len({*rows.values()}) == 3


@pytest.mark.hole
def test_the_servers_row_says_when_it_gets_round_secure_aggregation() -> None:
    """It said that the server sees every upload and that the sum alone is shown."""
    kept = {"noise_trust": "secure_aggregation", "cohort_size": 3} | CLIPPED
    run = small(mechanism="nbafl", num_hbc_clients=0, **kept)
    account = account_of(run, make("nbafl", **kept), assumptions="as dealt")
    told = {row.adversary: row.assumptions for row in claims.table(account)}
    assert told["server"].startswith("sees every upload, which secure aggregation is")
    assert not any(
        "is to hide" in text for who, text in told.items() if who != "server"
    )
    for row in claims.table(before(**CLIPPED)):
        assert "is to hide" not in row.assumptions


def test_what_votes_will_decide_is_nominal_before_the_run_and_after_it() -> None:
    quiet = {"contribution_noise": 8.0, "vote_epsilon": 0.1}
    voted = before(**CLIPPED, influence_filter="join", **quiet)
    assert claims.planned_row(before(**CLIPPED))["status"]["rdp"] == "proved"
    planned = claims.planned_row(voted)
    spent = planned["epsilon_spent"]
    assert planned["delta_spent"] > 1 and spent.pop("basic") == np.inf
    assert all(map(np.isfinite, spent.values()))
    assert set(planned["status"].values()) == {"nominal"}
    tally = claims.table(voted.record_pass(), methods=("rdp",))
    assert {one.proved for one in tally} == {False}


@pytest.mark.hole
def test_rows_count_the_filter_and_none_is_amplified():
    """Rows said that nothing else leaves the client, of a ledger of uploads alone."""
    mechanism = make("dp_fedavg", cohort_size=2)
    told = FilterSettings(vote_epsilon=0.5, contribution_noise=20.0)
    hidden = privacy.filter_cost(told, num_participants=4, delta=1e-5)
    spent = []
    for cost in (None, hidden, hidden._replace(epsilon_per_vote=math.inf)):
        who = {"equal_weights": True, "other_costs": cost or OtherCosts()}
        book = Book(4, mechanism, who=who)
        if cost is not None:
            book.record_pass()
        record(book, [0, 1], multiplier=1.0, epsilon=1.0, delta=1e-5, weights=0.5)
        summary = claims.summary(book.account)
        rows = summary["guarantees"]
        spent.append(summary["epsilon_spent"])
        assert {row["status"] for row in rows} == {"nominal" if cost else "proved"}
        sampled = [row for row in rows if "sampled" in row["method"]]
        assert bool(sampled) == (cost is None)
        said = " ".join(row["assumptions"] for row in rows)
        assert ("influence filter" in said) == (cost is not None)
        assert (base.NOTHING_ELSE in said) == (cost is None)
        assert ("a tally" in said) == (cost is not None)
    alone, with_filter, open_votes = spent
    for method in ("basic", "rdp", "pld"):
        assert alone[method] < with_filter[method] < open_votes[method] == math.inf


@pytest.mark.hole
@pytest.mark.parametrize("accounting_method", ["basic", "rdp"])
@pytest.mark.parametrize("filtered", [False, True])
def test_with_a_filter_the_promise_is_proved_and_the_tally_is_not(
    filtered: bool, accounting_method: str
):
    """Votes decide who uploads how often, so a tally was not known before."""
    hidden = OtherCosts(1, 50.0, 0.1, 1e-5, 3, 0.01)
    mechanism = make("nbafl", delta=1e-3, **CLIPPED)
    promise = PromiseSettings(total_epsilon=2.0, total_accounting=accounting_method)
    who = {"num_rounds": 50, "other_costs": hidden if filtered else OtherCosts()}
    book = Book(3, mechanism, promise, who=who)
    if filtered:
        book.record_pass()
    z = mechanism.least_multiplier
    record(book, [0], multiplier=z, std=z, delta=1e-3, weights=1.0)
    rows = claims.summary(book.account)
    *tallies, promised = rows["guarantees"]
    assert {row["status"] for row in tallies} == {"nominal" if filtered else "proved"}
    assert promised["status"] == "proved" and promised["adversary"] == "server"
    assert promised["method"] == f"promise by {accounting_method}"
    assert promised["epsilon"] == 2.0
    uploads = 9 if filtered else 10  # of ε = .2; the filter's 1.9 hold nine
    basic = uploads * 1e-3 + (1e-5 if filtered else 0)
    assert promised["delta"] == pytest.approx(
        basic if accounting_method == "basic" else 1e-5
    )


@pytest.mark.hole
@pytest.mark.parametrize("cohort", [1, 2, 5, 10])
def test_a_smaller_cohort_claims_what_its_noise_gives(cohort: int):
    """The claim stayed at 5.299 where 5 of 10 clients had an exact ε of 6.57."""
    mechanism = make("dp_fedavg", noise_multiplier=1.0, delta=1e-5)
    book = Book(10, mechanism)
    z = 1.0 / math.sqrt(10)
    whole = {"epsilon": concentrated_epsilon(1.0, 1e-5), "delta": 1e-5}
    record(book, range(cohort), multiplier=z, std=z, weights=1 / cohort, **whole)
    exact = composed_epsilon("gdp", 10 / cohort, 1e-5)
    basic = book.epsilon_spent("basic")
    assert basic >= exact
    left = concentrated_epsilon(math.sqrt(cohort / 10), 1e-5)
    assert basic == pytest.approx(float(left), rel=1e-5)


@pytest.mark.hole
@pytest.mark.parametrize("weighting", ["examples", "uniform"])
def test_amplification_needs_equal_weights_of_clients_never_drawn_too(weighting: str):
    """A client of another size, not drawn so far, is another outcome of the draw."""
    run = {"mechanism": "gaussian", "partition": "dirichlet", "num_hbc_clients": 0}
    config = small(weighting=weighting, **CLIPPED, **run)
    program = federation.build([config], digits())
    assert program.data.min_num_examples < program.data.max_num_examples
    (before,) = program.accounts
    assert before.participation.equal_weights == (weighting == "uniform")
    book = Book(7, before.mechanism)
    record(book, [0, 1], multiplier=1.0, epsilon=1.0, delta=0.0, weights=0.5)
    who = before.participation._asdict()
    rows = claims.summary(book.claiming(**who))["guarantees"]
    sampled = [row for row in rows if "sampled" in row["method"]]
    assert bool(sampled) == before.participation.equal_weights
