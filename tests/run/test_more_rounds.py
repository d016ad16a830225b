"""Runs that end early, by a hook or without a gain; and runs that get more rounds.

A number of rounds that data decide has no proved ε: such a run is claimed at its
planned length, or says that its ε is nominal.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from quick_training import quick_training
from small_runs import (
    SAME_BYTES,
    contents,
    digits,
    read_rows,
    run_small,
    share_compiled_rounds,
    small,
)

from fedsvp_jax import run
from fedsvp_jax.core.files import plain
from fedsvp_jax.core.tree import params_sha256
from fedsvp_jax.federation import build
from fedsvp_jax.federation.run_digest import check_more_rounds
from fedsvp_jax.run.early_stopping import UNRELEASED, BestRound
from fedsvp_jax.run.sweep import SweepPlan, sweep

PROVED = {
    "mechanism": "nbafl",
    "clipping": "update_clip",
    "calibration": "analytic",
    "delta": 1e-5,
}
RELEASED = {"mechanism": "fedsva", "contribution_release": "randomized_response"}
RELEASED |= {"calibration": "classical"}
# FedAdam has a state that every checkpoint must keep.
STEP = {"mechanism": "nbafl", "server_optimizer": "adam", "eval_every": 2}


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        quick_training.__wrapped__(patch)  # type: ignore[attr-defined]
        share_compiled_rounds(patch)
        yield


def train(folder: pathlib.Path, num_rounds: int, **named: Any) -> dict[str, Any]:
    settings = {**STEP, **named.pop("settings", {})}
    return run_small(small(num_rounds=num_rounds, **settings), folder, **named)


def rows(folder: pathlib.Path) -> list[dict[str, Any]]:
    return read_rows(folder / "metrics.jsonl")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder, 5)
    return folder


def test_more_rounds_of_a_finished_run_are_those_of_a_longer_one(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Also the row of the former last round, which alone was tested out of turn."""
    train(tmp_path / "run", 3)
    assert "pld" in rows(tmp_path / "run")[-1]["epsilon_spent"]
    assert rows(tmp_path / "run")[-1]["test_accuracy"] is not None
    train(tmp_path / "run", 5, resume=True)
    same = ("metrics.jsonl", "clients.jsonl")
    assert contents(tmp_path / "run", same) == contents(whole, same)


OTHERS = {
    "the noise of mechanism time_varying depends": {"mechanism": "time_varying"},
    "the noise of mechanism dpa depends": {"mechanism": "dpa"},
    "the promise of total_epsilon is for all rounds": {"total_epsilon": 50.0},
    "max_uploads limits": {"max_uploads": 2},
    "cosine falls over all rounds": {"learning_rate_schedule": "cosine"},
}


def test_more_rounds_are_refused_where_the_first_ones_would_have_been_others() -> None:
    def check(**settings: Any) -> None:
        config = small(num_rounds=6, **{"mechanism": "nbafl"} | settings)
        check_more_rounds(config, build([config], digits()).mechanism, 3)

    for why, settings in OTHERS.items():
        with pytest.raises(ValueError, match=why):
            check(**settings)
    for name in ("nbafl", "fedsva", "reestimation"):
        check(mechanism=name, learning_rate_schedule="exponential")
    check(mechanism="dp_fedavg", adaptive_clip=True)


def epsilons(summary: dict[str, Any], status: str, ends: str = "") -> dict[Any, float]:
    """ε by adversary and method of the rows of a status, their method's end cut off."""
    return {
        (row["adversary"], row["method"].removesuffix(ends)): row["epsilon"]
        for row in summary["guarantees"]
        if row["status"] == status and row["method"].endswith(ends)
    }


@pytest.mark.hole
@pytest.mark.parametrize(
    "settings",
    [
        {"num_clients": 6, "cohort_size": 2, "num_hbc_clients": 0, "cohorts": "cyclic"},
        {"mechanism": "dp_fedavg", "noise_multiplier": 3.0},
        pytest.param(RELEASED, marks=pytest.mark.slow),
        {"total_epsilon": 3.0},
    ],
    ids=str,
)
def test_a_run_that_a_hook_ends_is_claimed_at_its_planned_length(
    settings: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    """Before, "proved" stood at the ε of the rounds that were run."""
    settings = PROVED | settings
    whole = train(tmp_path / "whole", 7, settings=settings)
    last = whole["rounds"] - 1

    def hook(number: int, row: Any) -> object:
        assert "proved" not in row["status"].values()
        return run.STOP if number == last else None

    folder = tmp_path / "run"
    ended = train(folder, 7, settings=settings, on_round=hook)
    assert (ended["rounds"], ended["stopped_by"]) == (last, "on_round")
    claimed = epsilons(whole, "proved")
    planned = epsilons(ended, "proved", ", 7 planned rounds")
    promise = {key: value for key, value in claimed.items() if "promise" in key[1]}
    assert planned == pytest.approx({k: claimed[k] for k in claimed.keys() - promise})
    assert len(epsilons(ended, "proved").keys() - promise.keys()) == len(planned)
    assert promise.items() <= epsilons(ended, "proved").items()
    assert set(ended["status"].values()) == {"nominal"}
    tally = epsilons(ended, "nominal")
    assert all(tally[key] <= planned[key] for key in planned)
    # Its last planned round makes it the run that it was planned to be.
    again = train(folder, 7, settings=settings, resume=True)
    assert plain(again) == plain(whole)


def test_a_hook_is_given_what_was_released_and_ends_the_run_with_its_round(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    seen: list[Any] = []
    models: list[str] = []

    def hook(number: int, row: Any) -> object:
        told = dict(row)
        models.append(params_sha256(told.pop("params")))
        assert told.pop("stats") == {}
        seen.append(told)
        with pytest.raises(TypeError):
            row["round"] = 0
        with pytest.raises(KeyError, match="update_l2 is made of private data"):
            row["update_l2"]
        return run.STOP if number == 3 else None

    summary = train(tmp_path / "run", 5, on_round=hook)
    assert summary["stopped_by"] == "on_round" and summary["rounds"] == 3
    assert summary["most_uploads"] <= 3  # the ledger counts what was uploaded
    assert len(set(models)) == 3 and models[-1] == summary["params_sha256"]
    kept = rows(tmp_path / "run")
    assert [{**row, "status": None} for row in kept] == [
        {**row, "status": None} for row in rows(whole)[:3]
    ]
    assert all(set(UNRELEASED) <= set(row) for row in kept)
    assert seen == [
        {name: value for name, value in row.items() if name not in UNRELEASED}
        for row in kept
    ]


@pytest.mark.hole
@pytest.mark.parametrize("total", [None, 5.0])
def test_a_run_that_numbers_without_noise_may_end_claims_nothing_proved(
    total: float | None, tmp_path: pathlib.Path
) -> None:
    """A promise neither: when the run ends tells of what no noise hides."""
    seen: list[float] = []

    def hook(number: int, row: Any) -> None:
        seen.append(row["update_l2"])
        with pytest.raises(KeyError, match=r"run.Options\(reveal="):
            row["num_clipped_updates"]

    settings = PROVED | {"total_epsilon": total}
    told = {"settings": settings, "on_round": hook, "reveal": ["update_l2"]}
    summary = train(tmp_path / "run", 3, **told)
    assert seen == [row["update_l2"] for row in rows(tmp_path / "run")]
    assert not epsilons(summary, "proved") and epsilons(summary, "nominal")
    for row in summary["guarantees"]:
        assert "was given update_l2, which no noise hides" in row["assumptions"]
    with pytest.raises(ValueError, match="reveal is None and was"):
        train(tmp_path / "run", 3, settings=settings, resume=True)
    with pytest.raises(ValueError, match=r"reveal must name fields of .*; got 'loss'"):
        train(tmp_path / "other", 3, reveal=["loss"])


def test_every_field_that_no_noise_hides_is_one_of_a_row(whole: pathlib.Path) -> None:
    """A new field of a row is decided about here: released, or only for who asks."""
    released = "round test_accuracy test_loss private_accuracy num_clients "
    released += "model_finite epsilon_spent status delta_spent target_delta adversary "
    released += "relation rdp_by_adversary"
    assert set(rows(whole)[0]) == {*released.split(), *UNRELEASED}


@pytest.mark.hole
def test_a_run_that_goes_on_after_a_look_is_nominal(tmp_path: pathlib.Path) -> None:
    """Before, the ε of whatever number of rounds it came to was called proved."""
    folder = tmp_path / "run"
    first = train(folder, 2, settings=PROVED)
    assert epsilons(first, "proved")
    for rounds in (3, 4):
        longer = train(folder, rounds, settings=PROVED, resume=True)
        assert {*longer["status"].values()} == {"nominal"}
        assert not epsilons(longer, "proved")
        said = longer["guarantees"][0]["assumptions"]
        assert "planned for 2 and continued after a look" in said
    again = train(folder, 4, settings=PROVED, resume=True)
    assert plain(again) == plain(longer)
    assert run.load_model(folder).rounds == 4


def test_a_run_without_a_gain_ends_and_resumes_to_the_same_bytes(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "run"
    told = {"settings": {"patience": 1}, "keep_best": True}
    summary = train(folder, 5, **told)
    # Tested after round 2, and not in round 3: one round without a gain.
    assert summary["stopped_by"] == "patience" and summary["rounds"] == 3
    assert (summary["best_round"], summary["best_by"]) == (2, "test_accuracy")
    before = contents(folder, SAME_BYTES)
    assert train(folder, 5, resume=True, **told)["rounds"] == 3
    assert contents(folder, SAME_BYTES) == before
    kept = run.load_model(folder, best=True)
    assert kept.rounds == 2 and run.load_model(folder).rounds == 3
    with pytest.raises(ValueError, match="keeps no best round; train with --keep_best"):
        run.load_model(whole, best=True)


def test_the_best_round_is_told_by_validation_where_rows_tell_it() -> None:
    best = BestRound()
    assert not best.note({"round": 1, "test_accuracy": None})
    told = [(0.5, 0.1), (0.4, 0.9), (None, None), (0.5, 0.9), (0.6, 0.0)]
    gains = [
        best.note({"round": k, "validation_accuracy": v, "test_accuracy": t})
        for k, (v, t) in enumerate(told, start=2)
    ]
    assert gains == [True, False, False, False, True]
    assert best.metric == "validation_accuracy" and best.row["round"] == 6
    assert not best.waited(None) and best.waited(0) and not best.waited(1)
    losses = [{"round": k, "test_loss": 2.0 if k == 1 else 1.0} for k in (1, 2, 3)]
    assert BestRound(losses).row == losses[1]


def test_a_sweep_has_no_patience_and_no_hook(tmp_path: pathlib.Path) -> None:
    plan = SweepPlan(("none",), (0.5,), (0,))
    with pytest.raises(ValueError, match="patience must be left out of a sweep"):
        sweep(small(patience=2), plan, tmp_path, dataset=digits())
    with pytest.raises(ValueError, match="keep_best must be left out of a sweep"):
        sweep(small(), plan, tmp_path, options=run.Options(keep_best=True))
