"""Promises before the run and their account after it."""

from typing import Any

import numpy as np
import pytest
from small_runs import digits, small

from fedsvp_jax import accounting
from fedsvp_jax.accounting import Ledger, promises
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


def cap(**changes: Any) -> int:
    return promises.upload_cap(*made(**PROMISE | changes))


def ledger_of(uploads: int, **changes: Any) -> Ledger:
    """A ledger after one client's uploads at the least noise that may be."""
    config, settings, mechanism = made(**PROMISE | changes)
    ledger = promises.new_ledger(mechanism, 7, keeps_stats=False)
    for round_num in range(1, uploads + 1):
        ledger.record(
            np.asarray([2]),
            round_num=round_num,
            noise_multiplier=np.asarray([float(mechanism.least_multiplier)]),
            noise_std=np.ones(1),
            epsilon=np.asarray([config.epsilon]),
            delta=np.asarray([config.delta]),
            release_epsilon=promises.release_epsilon(settings, mechanism),
        )
    return ledger


def test_without_a_promise_there_is_no_cap() -> None:
    assert cap() == promises.NO_CAP


@pytest.mark.parametrize(("promise", "uploads"), [(0.3, 1), (1.0, 3), (1.2, 4)])
def test_basic_composition_allows_as_many_uploads_as_fit(
    promise: float, uploads: int
) -> None:
    found = cap(total_epsilon=promise, total_accounting="basic", mechanism="nbafl")
    assert found == uploads


@pytest.mark.parametrize("method", ["basic", "rdp", "pld"])
@pytest.mark.parametrize(
    "more",
    [
        {"mechanism": "nbafl"},
        {"mechanism": "fedsva"},
        {"mechanism": "fedsva", "contribution_release": "laplace"},
    ],
    ids=str,
)
def test_the_cap_is_the_most_uploads_that_keep_the_promise(
    method: str, more: dict[str, Any]
) -> None:
    promise = 3.0
    uploads = cap(total_epsilon=promise, total_accounting=method, **more)
    assert uploads >= 1
    spent = ledger_of(uploads, **more).epsilon_spent(method, 1e-5)
    one_more = ledger_of(uploads + 1, **more).epsilon_spent(method, 1e-5)
    assert spent <= promise * (1 + 1e-6) < one_more


def test_a_larger_promise_allows_no_fewer_uploads() -> None:
    caps = [
        cap(total_epsilon=promise, total_accounting="rdp", mechanism="nbafl")
        for promise in (1.0, 2.0, 4.0, 8.0)
    ]
    assert caps == sorted(caps) and caps[0] < caps[-1]


@pytest.mark.parametrize("mechanism", ["none", "gaussian"])
def test_a_mechanism_without_scaled_noise_cannot_promise(mechanism: str) -> None:
    with pytest.raises(ValueError, match="cannot be promised"):
        cap(total_epsilon=1.0, mechanism=mechanism, noise_std=0.0)


def test_a_promise_below_one_uploads_cost_is_refused() -> None:
    with pytest.raises(ValueError, match="less than one upload costs by rdp"):
        cap(total_epsilon=1e-6, mechanism="nbafl")


def test_only_a_mechanism_that_tells_r_pays_for_it() -> None:
    released = {"contribution_release": "laplace", "release_epsilon": 0.25}
    for mechanism, changes, expected in (
        ("fedsva", released, 0.25),
        ("fedsva", {}, 0.0),
        ("fedsva", {"contribution_release": "worst_case"}, 0.0),
        ("nbafl", released, 0.0),
    ):
        _, settings, found = made(mechanism=mechanism, **changes)
        assert promises.release_epsilon(settings, found) == expected


def test_statistics_that_leave_without_noise_make_every_number_nominal() -> None:
    _, _, mechanism = made(mechanism="nbafl", sensitivity="update_clip")
    assert mechanism.claim.proved
    assert promises.new_ledger(mechanism, 7, keeps_stats=False).proved
    assert not promises.new_ledger(mechanism, 7, keeps_stats=True).proved


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


def test_pld_is_composed_in_the_last_round_alone() -> None:
    assert "pld" in accounting.composition.METHODS
    ledger = ledger_of(2, mechanism="nbafl")
    for last in (False, True):
        spent = promises.epsilon_spent(ledger, 1e-5, central=False, last=last)
        assert ("pld" in spent) == last
