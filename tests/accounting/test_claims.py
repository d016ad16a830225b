"""What a run says of the ε that it spent."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from ledgers import Book, record
from small_runs import digits, small

from fedsvp_jax import accounting
from fedsvp_jax.accounting import Account, Participation, claims
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import plan
from fedsvp_jax.federation.budget import account_of
from fedsvp_jax.federation.federated_data import federate
from fedsvp_jax.mechanisms import Mechanism, make_mechanism

PROMISE = {"epsilon": 0.3, "num_hbc_clients": 0, "delta": 1e-3, "num_rounds": 1000}


def made(**changes: Any) -> tuple[ExperimentConfig, Mechanism]:
    config = small(**changes)
    data = federate([config], digits())
    settings = plan.mechanism_config(
        config, min_num_examples=float(data.min_num_examples)
    )
    return config, make_mechanism(config.mechanism, settings)


def before(**changes: Any) -> Account:
    """The account of a run before its first round."""
    return account_of(*made(**PROMISE | changes), assumptions="as dealt")


def after(uploads: int, **changes: Any) -> Account:
    """The account after one client's uploads at the least noise that may be."""
    config, mechanism = made(**PROMISE | changes)
    book = Book(7, mechanism, who={"assumptions": "as dealt"})
    for _ in range(uploads):
        record(
            book,
            [2],
            multiplier=np.min(mechanism.least_multiplier),
            epsilon=config.epsilon,
            delta=config.delta,
        )
    return book.account


def test_only_a_mechanism_that_tells_r_pays_for_it() -> None:
    released = {"contribution_release": "laplace", "release_epsilon": 0.25}
    for mechanism, changes, expected in (
        ("fedsva", released, 0.25),
        ("fedsva", {}, 0.0),
        ("fedsva", {"contribution_release": "worst_case"}, 0.0),
        ("nbafl", released, 0.0),
    ):
        _, found = made(mechanism=mechanism, **changes)
        assert float(found.release_epsilon) == expected


def test_what_makes_a_run_nominal_stands_in_every_row() -> None:
    account = before(mechanism="nbafl", sensitivity="update_clip")
    who = account.participation._replace(nominal="nominal: statistics leave")
    other = dataclasses.replace(account, participation=who)
    assert account.mechanism.claim.proved
    assert account.proved and not other.proved
    for row in claims.table(other):
        assert row.status == "nominal" and row.assumptions.endswith(who.nominal)
    assert account.said("") == account
    assert other.said("seen").participation.nominal == f"{who.nominal}; seen"
    for row in claims.table(account.said("seen"), methods=("rdp",)):
        assert row.proved is False and row.assumptions.endswith("; seen")


def test_one_upload_is_proved_where_bound_and_formula_are() -> None:
    clip = {"mechanism": "nbafl", "sensitivity": "update_clip"}
    large = clip | {"epsilon": 2.0, "allow_large_epsilon": True}
    for changes, epsilon, word in (
        ({"mechanism": "none"}, np.inf, None),
        (clip | {"sensitivity": "paper"}, 0.3, "nominal"),
        (clip, 0.3, "proved"),
        (clip, 1.0, "nominal"),
        (large | {"calibration": "analytic"}, 2.0, "proved"),
        (clip, np.inf, "nominal"),
    ):
        account = Account.of(made(**changes)[1], Participation())
        assert claims.upload_status(account, epsilon, 1e-3) == word
    for delta, stats, word in ((0.99, True, "nominal"), (1.0, False, "nominal")):
        who = Participation(nominal="nominal: statistics leave" if stats else "")
        account = Account.of(made(**clip)[1], who)
        assert claims.upload_status(account, 0.3, delta) == word


def test_the_summary_names_adversary_relation_and_status_of_every_row() -> None:
    for sensitivity, proved in (("paper", False), ("update_clip", True)):
        changes = {"mechanism": "nbafl", "sensitivity": sensitivity}
        found = claims.summary(after(2, **changes))
        assert found["most_uploads"] == 2
        assert found["epsilon_spent"]["basic"] == pytest.approx(0.6)
        statuses = {row["status"] for row in found["guarantees"]}
        assert ("proved" in statuses) == proved
        for row in found["guarantees"]:
            assert row["adversary"] and row["relation"]
            assert row["assumptions"].endswith("; as dealt")


def test_what_was_promised_has_a_row_with_its_adversary_and_assumptions() -> None:
    for changes, adversary in (
        ({"mechanism": "nbafl", "sensitivity": "update_clip"}, "server"),
        ({"mechanism": "dp_fedavg"}, "outside observer of the final model"),
    ):
        told = changes | {"total_epsilon": 30.0}
        row = claims.summary(before(**told))["guarantees"][-1]
        assert row["method"] == "promise by rdp" and row["epsilon"] == 30.0
        assert row["adversary"] == adversary and row["status"] == "proved"
        assert row["assumptions"].endswith("; as dealt")


def test_pld_is_composed_in_the_last_round_alone() -> None:
    assert "pld" in accounting.composition.METHODS
    account = after(2, mechanism="nbafl")
    for last in (False, True):
        row = claims.row(account, last=last)
        assert ("pld" in row["epsilon_spent"]) == ("pld" in row["status"]) == last


def test_a_claim_about_the_average_is_spent_against_those_who_see_it() -> None:
    """Two equal clients: in their average each one's noise is √2 times as much."""
    for view, precision in (("server", 1 / 9), ("observer", 1 / 18)):
        book = Book(7, proved=True, view=view)
        record(book, [1, 2], multiplier=3.0, weights=0.5)
        spent = claims.row(book.account, last=False)["epsilon_spent"]
        expected = accounting.composed_epsilon("rdp", precision, 1e-5)
        assert spent["rdp"] == pytest.approx(expected, rel=1e-6)


def test_basic_composition_is_not_proved_where_delta_has_reached_one() -> None:
    for delta, proved in ((0.25, True), (0.5, False)):
        book = Book(3, proved=True)
        for _ in range(2):
            record(book, [0], multiplier=1.0, delta=delta)
        rows = claims.table(book.account, methods=())
        (basic,) = (row for row in rows if row.method == "basic")
        assert basic.delta == 2 * delta and basic.proved == proved


def test_each_adversary_s_number_in_a_row_is_that_of_its_claim() -> None:
    book = Book(7, proved=True)
    record(book, [1, 2, 3], multiplier=[3.0, 4.0, 5.0], weights=1 / 3)
    claimed = claims.table(book.account, methods=("rdp",))
    rows = {one.adversary: one.epsilon for one in claimed if one.method == "rdp"}
    assert claims.by_adversary(book.account) == rows and len({*rows.values()}) == 3


def test_what_votes_will_decide_is_nominal_before_the_run_and_after_it() -> None:
    told = {"mechanism": "nbafl", "sensitivity": "update_clip"}
    quiet = {"contribution_noise": 8.0, "vote_epsilon": 0.1}
    voted = before(**told, influence_filter="join", **quiet)
    assert claims.planned_row(before(**told))["status"]["rdp"] == "proved"
    planned = claims.planned_row(voted)
    assert all(map(np.isfinite, planned["epsilon_spent"].values()))
    assert set(planned["status"].values()) == {"nominal"}
    tally = claims.table(voted.record_pass(), methods=("rdp",))
    assert {one.proved for one in tally} == {False}


def test_planned_rows_have_the_methods_that_were_asked_for() -> None:
    spent, planned = (after(uploads, mechanism="nbafl") for uploads in (1, 3))
    methods = [
        row.method
        for row in claims.table(spent, methods=("rdp",), planned=planned)
        if row.method.endswith("planned rounds")
    ]
    assert {method.partition(",")[0] for method in methods} == {"basic", "rdp"}
