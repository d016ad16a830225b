"""Clients with an ε of their own: the laws of one promise, client by client."""

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from quick_training import quick_training
from small_runs import digits, read_rows, share_compiled_rounds, small

from fedsvp_jax import run
from fedsvp_jax.accounting import claims
from fedsvp_jax.deploy import make_policy
from fedsvp_jax.federation import Program, build
from fedsvp_jax.mechanisms import noise_setting

EPSILONS = [1.0, 2.0, 2.0, 8.0, 8.0, 4.0, 8.0]
ALL = {"num_hbc_clients": 0, "num_attributes": 1, "partition": "iid"}
CLIENTS = {"sensitivity": "update_clip", "relation": "add_remove", "l2_norm_clip": 1.0}
RECORDS = {
    "sensitivity": "per_example",
    "relation": "add_remove",
    "batches": "poisson",
    "local_steps": 1,
}
ANALYTIC = {"calibration": "analytic", "delta": 1e-6} | CLIENTS
SOLVED = {"solve": "noise"}
BASIC, PLD = ({"total_accounting": by} for by in ("basic", "pld"))
RELEASED = {"contribution_release": "randomized_response", "release_epsilon": 0.01}
GUIDED = {"allow_large_epsilon": True, "num_attributes": 2, "delta": 1e-6} | CLIENTS
NBAFL, GAUSSIAN = {"mechanism": "nbafl"} | ANALYTIC, {"mechanism": "gaussian"}
VARYING, DPA = ({"mechanism": name} | ANALYTIC for name in ("time_varying", "dpa"))
CASES = {
    "noise of uploads": NBAFL | SOLVED,
    "noise in steps": GAUSSIAN | SOLVED | RECORDS,
    "noise, counted by PLD": GAUSSIAN | SOLVED | PLD | CLIENTS,
    "noise, by basic composition": NBAFL | SOLVED | BASIC,
    "noise by a released R": {"mechanism": "fedsva"} | SOLVED | RELEASED | GUIDED,
    "noise that follows the round": VARYING | SOLVED,
    "uploads": NBAFL | {"epsilon": 0.5},
    "uploads of changing noise": DPA | {"epsilon": 0.5},
    "uploads, by basic composition": VARYING | BASIC | {"epsilon": 0.5},
    "uploads of a sum": {"mechanism": "dp_fedavg", "noise_multiplier": 8.0},
}


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """No promise follows what is trained."""
    with pytest.MonkeyPatch.context() as patch:
        quick_training.__wrapped__(patch)  # type: ignore[attr-defined]
        share_compiled_rounds(patch)
        yield


def promising(folder: Path, epsilons: list[float], **changes: Any) -> Any:
    """Settings that promise these ε; the last is that of the clients not named."""
    path = folder / f"{'-'.join(map(str, epsilons))}.json"
    path.write_text(json.dumps(dict(enumerate(epsilons[:-1]))))
    told = {"total_epsilon": epsilons[-1], "client_epsilons": str(path)}
    return small(**(ALL | told | changes))


def built(config: Any) -> Program:
    return build([config], digits())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A run in which every client uploads in every round, with noise of its own."""
    folder = tmp_path_factory.mktemp("ran")
    config = promising(folder, EPSILONS, cohort_size=7, **CASES["noise of uploads"])
    summary = run.train(config, folder / "run", dataset=digits())
    rows = read_rows(folder / "run" / "clients.jsonl")
    return SimpleNamespace(
        config=config, program=built(config), summary=summary, clients=rows
    )


@pytest.mark.parametrize("case", CASES)
def test_no_client_spends_more_than_it_was_promised(tmp_path: Path, case: str) -> None:
    """Planned ≥ spent, by the promise's own accounting; who has spent it stays away."""
    # By PLD one solution takes 2 s.
    epsilons = [2.0] * 6 + [8.0] if "PLD" in case else EPSILONS
    config = promising(tmp_path, epsilons, cohort_size=7, num_rounds=3, **CASES[case])
    found = run.train(config, tmp_path / "run", dataset=digits())["by_client"]
    for row in read_rows(tmp_path / "run" / "metrics.jsonl"):
        assert row["delta_spent"] is not None
    rows = read_rows(tmp_path / "run" / "clients.jsonl")
    uploads = np.bincount([row["client"] for row in rows], minlength=7)
    assert found["uploads"].tolist() == uploads.tolist()
    assert found["promised"].tolist() == epsilons
    by = {"basic": "epsilon", "rdp": "epsilon_rdp"}.get(config.total_accounting)
    assert by is None or np.all(found[by] <= np.multiply(EPSILONS, 1 + 1e-5))
    if config.solve == "noise":
        assert (uploads == config.num_rounds).all()
    if by is None or config.solve != "noise":
        account = built(config).accounts[0]
        for part, promised in zip(account.parts, account.promised, strict=True):
            assert uploads[list(promised.clients)].max() <= part.plan.most_uploads


def test_who_has_spent_its_epsilon_stays_away_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    settings = CASES["uploads"] | {"epsilon": 1.5, "cohort_size": 7, "num_rounds": 4}
    config = promising(tmp_path, [1.6, 3.0, 50.0, 50.0, 50.0, 50.0, 50.0], **settings)
    summary = run.train(config, tmp_path / "run", dataset=digits())
    uploads = summary["by_client"]["uploads"].tolist()
    assert uploads[0] < uploads[1] < 4
    assert uploads[2:] == [4] * 5
    assert summary["stopped_by"] is None


def test_the_dry_run_is_the_run_and_a_second_accountant_agrees(
    ran: SimpleNamespace,
) -> None:
    """Of clients that upload in every round; dp-accounting reads clients.jsonl."""
    account = ran.program.accounts[0]
    found = ran.summary["by_client"]["epsilon_rdp"]
    for part, promised in zip(account.parts, account.promised, strict=True):
        planned = claims.planned_row(part, part.plan.always)["epsilon_spent"]["rdp"]
        assert planned == pytest.approx(promised.epsilon, rel=1e-5)
        for client in promised.clients:
            assert found[client] == pytest.approx(planned, rel=1e-6)
            accountant = RdpAccountant()
            for row in ran.clients:
                if row["client"] == client:
                    multiplier = row["noise_std"] / row["sensitivity"]
                    accountant.compose(dp_accounting.GaussianDpEvent(multiplier))
            assert accountant.get_epsilon(1e-5) == pytest.approx(planned, rel=1e-5)


def test_each_client_draws_the_noise_of_its_own_epsilon(ran: SimpleNamespace) -> None:
    """σ by client is the one that its ε alone is solved for, and what is drawn has it.

    Also that of a deployed site which promises the same.
    """
    name, _ = noise_setting(ran.config.mechanism)
    stds = []
    for group in ran.program.groups[0]:  # from the smallest ε
        alone = dataclasses.replace(
            ran.config, client_epsilons=None, total_epsilon=group.epsilon
        )
        (solved,) = build([alone], digits()).configs
        assert getattr(solved, name) == getattr(group.config, name)
        site = make_policy(alone, min_num_examples=ran.program.data.min_num_examples)
        np.testing.assert_array_equal(
            site.mechanism.least_multiplier, group.mechanism.least_multiplier
        )
        mine = [row for row in ran.clients if row["client"] in group.clients]
        for row in mine:
            drawn = row["noise_l2"] / math.sqrt(9610)
            assert drawn == pytest.approx(row["noise_std"], rel=0.05)
        stds.append(mine[0]["noise_std"])
    assert len(stds) == 4 and stds == sorted(stds, reverse=True)
    with pytest.raises(ValueError, match="client_epsilons must be left out"):
        make_policy(ran.config, min_num_examples=10)


def test_the_claims_name_every_epsilon_and_its_clients(ran: SimpleNamespace) -> None:
    promises = {
        row["relation"].partition("; for ")[2]: row["epsilon"]
        for row in ran.summary["guarantees"]
        if row["method"] == "promise by rdp"
    }
    assert promises == {
        "the client promised ε = 1 (0)": 1.0,
        "the 2 clients promised ε = 2 (1, 2)": 2.0,
        "the client promised ε = 4 (5)": 4.0,
        "the 3 clients promised ε = 8 (3, 4, 6)": 8.0,
    }
    for row in ran.summary["guarantees"]:
        assert row["proved"]
        assert "decided by public facts" in row["assumptions"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mechanism": "dp_fedavg", "solve": "noise"}, "whose noise is the same"),
        (
            CASES["noise of uploads"] | {"downlink_noise": True, "num_rounds": 40},
            "whose noise is the same",
        ),
        (CASES["uploads"] | {"epsilon": 3.0}, "is less than one upload costs"),
        ({"mechanism": "none"}, "the mechanism adds no noise"),
    ],
)
def test_a_promise_that_cannot_be_kept_names_its_clients(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said) as error:
        built(promising(tmp_path, EPSILONS, **changes))
    assert str(error.value).startswith("client_epsilons: the client promised ε = 1 (0)")


def test_weights_may_follow_the_epsilon_and_are_counted(tmp_path: Path) -> None:
    """p_i in proportion to n_i·ε_i, in the average and in what an observer sees."""
    config = promising(tmp_path, EPSILONS, cohort_size=7, **CASES["noise of uploads"])
    by_epsilon = dataclasses.replace(config, weighting="epsilon", num_rounds=2)
    run.train(by_epsilon, tmp_path / "run", dataset=digits())
    rows = read_rows(tmp_path / "run" / "clients.jsonl")[:7]
    held = np.asarray([row["num_examples"] for row in rows], float)
    shares = held * np.asarray(EPSILONS)
    weights = np.asarray([row["weight"] for row in rows])
    np.testing.assert_allclose(weights, shares / shares.sum(), rtol=1e-6)
    seen = read_rows(tmp_path / "run" / "metrics.jsonl")[0]["rdp_by_adversary"]
    parts = weights * [row["noise_std"] for row in rows]
    accountant = RdpAccountant()
    least = min(np.linalg.norm(parts) / weights)  # Δ = C = 1
    accountant.compose(dp_accounting.GaussianDpEvent(least))
    observer = seen["outside observer of the final model"]
    assert accountant.get_epsilon(1e-5) == pytest.approx(observer, rel=1e-4)


BY_EPSILON = {"weighting": "epsilon", "noise_multiplier": 9.0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"total_epsilon": None}, "needs total_epsilon"),
        (BY_EPSILON | {"client_epsilons": None}, "needs client_epsilons"),
        (BY_EPSILON | {"mechanism": "dp_fedavg"}, "must not be epsilon"),
        (
            BY_EPSILON | {"client_values": "additive", "validation_examples": 50},
            "nor with client_values",
        ),
    ],
)
def test_what_has_no_meaning_without_or_beside_an_epsilon_of_ones_own_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    config = promising(tmp_path, [8.0] * 7, **NBAFL)
    with pytest.raises(ValueError, match=said):
        built(dataclasses.replace(config, **changes))


def test_a_run_that_ends_early_is_claimed_at_its_planned_length_by_client(
    tmp_path: Path,
) -> None:
    config = promising(tmp_path, EPSILONS, cohort_size=7, **CASES["noise of uploads"])
    early = run.Options(on_round=lambda number, _: run.STOP if number == 2 else None)
    summary = run.train(config, tmp_path / "run", dataset=digits(), options=early)
    assert summary["rounds"] == 2
    planned = [
        row["epsilon"]
        for row in summary["guarantees"]
        if row["method"] == "rdp, 5 planned rounds" and row["adversary"] == "server"
    ]
    assert planned == [pytest.approx(max(EPSILONS), rel=1e-5)]
