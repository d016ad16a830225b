"""What a run says of the ε that it spent."""

from typing import Any

import numpy as np
import pytest
from ledgers import record
from small_runs import digits, small

from fedsvp_jax import accounting
from fedsvp_jax.accounting import Ledger, promises
from fedsvp_jax.accounting.allowance import release_epsilon
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import plan
from fedsvp_jax.federation.federated_data import federate
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, make_mechanism

PROMISE = {"epsilon": 0.3, "num_hbc_clients": 0, "delta": 1e-3, "num_rounds": 1000}


def made(**changes: Any) -> tuple[ExperimentConfig, MechanismConfig, Mechanism]:
    config = small(**changes)
    data = federate([config], digits())
    settings = plan.mechanism_config(
        config, min_num_examples=float(data.min_num_examples)
    )
    return config, settings, make_mechanism(config.mechanism, settings)


def ledger_of(uploads: int, **changes: Any) -> Ledger:
    """A ledger after one client's uploads at the least noise that may be."""
    config, settings, mechanism = made(**PROMISE | changes)
    ledger = promises.new_ledger(mechanism, 7, keeps_stats=False)
    for _ in range(uploads):
        record(
            ledger,
            [2],
            multiplier=np.min(mechanism.least_multiplier),
            epsilon=config.epsilon,
            delta=config.delta,
            release_epsilon=release_epsilon(settings, mechanism),
        )
    return ledger


def test_only_a_mechanism_that_tells_r_pays_for_it() -> None:
    released = {"contribution_release": "laplace", "release_epsilon": 0.25}
    for mechanism, changes, expected in (
        ("fedsva", released, 0.25),
        ("fedsva", {}, 0.0),
        ("fedsva", {"contribution_release": "worst_case"}, 0.0),
        ("nbafl", released, 0.0),
    ):
        _, settings, found = made(mechanism=mechanism, **changes)
        assert release_epsilon(settings, found) == expected


def test_statistics_that_leave_without_noise_make_every_number_nominal() -> None:
    _, _, mechanism = made(mechanism="nbafl", sensitivity="update_clip")
    assert mechanism.claim.proved
    assert promises.new_ledger(mechanism, 7, keeps_stats=False).proved
    assert not promises.new_ledger(mechanism, 7, keeps_stats=True).proved


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
        _, _, mechanism = made(**changes)
        status = promises.upload_status(mechanism, epsilon, 1e-3, keeps_stats=False)
        assert status == word
    for delta, stats, word in ((0.99, True, "nominal"), (1.0, False, "nominal")):
        _, _, mechanism = made(**clip)
        status = promises.upload_status(mechanism, 0.3, delta, keeps_stats=stats)
        assert status == word


def test_the_summary_names_adversary_relation_and_status_of_every_row() -> None:
    for sensitivity, proved in (("paper", False), ("update_clip", True)):
        changes = {"mechanism": "nbafl", "sensitivity": sensitivity}
        config, settings, mechanism = made(**PROMISE | changes)
        ledger = ledger_of(2, **changes)
        found = promises.summary(
            config, settings, ledger, mechanism, data_assumptions="as dealt"
        )
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
        told = PROMISE | changes | {"total_epsilon": 30.0}
        if adversary != "server":
            del told["epsilon"]
        config, settings, mechanism = made(**told)
        ledger = promises.new_ledger(mechanism, 7, keeps_stats=False)
        found = promises.summary(
            config, settings, ledger, mechanism, data_assumptions="as dealt"
        )
        row = found["guarantees"][-1]
        assert row["method"] == "promise by rdp" and row["epsilon"] == 30.0
        assert row["adversary"] == adversary and row["status"] == "proved"
        assert row["assumptions"].endswith("; as dealt")


def test_pld_is_composed_in_the_last_round_alone() -> None:
    assert "pld" in accounting.composition.METHODS
    ledger = ledger_of(2, mechanism="nbafl")
    for last in (False, True):
        spent = promises.epsilon_spent(ledger, 1e-5, central=False, last=last)
        assert ("pld" in spent) == last


def test_a_claim_about_the_average_is_spent_against_those_who_see_it() -> None:
    """Two equal clients: in their average each one's noise is √2 times as much."""
    ledger = Ledger(7, proved=True)
    record(ledger, [1, 2], multiplier=3.0, weights=0.5)
    for central, precision in ((False, 1 / 9), (True, 1 / 18)):
        spent = promises.epsilon_spent(ledger, 1e-5, central=central, last=False)
        expected = accounting.composed_epsilon("rdp", precision, 1e-5)
        assert spent["rdp"] == pytest.approx(expected, rel=1e-6)


def test_basic_composition_is_not_proved_where_delta_has_reached_one() -> None:
    for delta, proved in ((0.25, True), (0.5, False)):
        ledger = Ledger(3, proved=True)
        for _ in range(2):
            record(ledger, [0], multiplier=1.0, delta=delta)
        rows = accounting.guarantees(
            ledger, 1e-5, relation="replace a record", assumptions="", methods=()
        )
        (basic,) = (row for row in rows if row.method == "basic")
        assert basic.delta == 2 * delta and basic.proved == proved
