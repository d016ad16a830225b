"""Runs that end early, by a hook or without a gain; and runs that get more rounds."""

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
    share_compiled_rounds,
    small,
)

from fedsvp_jax import run
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.federation import build
from fedsvp_jax.report import write_run_report
from fedsvp_jax.report.read import read_run
from fedsvp_jax.report.run_plots import run_plots
from fedsvp_jax.run import more_rounds
from fedsvp_jax.run.early_stopping import BestRound
from fedsvp_jax.run.sweep import SweepPlan, sweep

# FedAdam has a state that every checkpoint must keep.
STEP = {"mechanism": "nbafl", "server_optimizer": "adam", "eval_every": 2}


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        quick_training.__wrapped__(patch)  # type: ignore[attr-defined]
        share_compiled_rounds(patch)
        yield


def train(
    folder: pathlib.Path, num_rounds: int, *, resume: bool = False, **named: Any
) -> dict[str, Any]:
    settings = {**STEP, **named.pop("settings", {})}
    return run.train(
        small(num_rounds=num_rounds, **settings),
        folder,
        dataset=digits(),
        placement=Placement(rounds_per_call=2),
        resume=resume,
        checkpoint_every=2,
        **named,
    )


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
    assert contents(tmp_path / "run", SAME_BYTES) == contents(whole, SAME_BYTES)


def test_fewer_rounds_are_refused(whole: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="num_rounds is 4 and was 5"):
        train(whole, 4, resume=True)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"mechanism": "time_varying"}, "the noise of mechanism time_varying depends"),
        ({"mechanism": "dpa"}, "the noise of mechanism dpa depends"),
        ({"mechanism": "nbafl"}, None),
        ({"mechanism": "fedsva"}, None),
        ({"mechanism": "reestimation"}, None),
        ({"mechanism": "dp_fedavg", "adaptive_clip": True}, None),
        (
            {"mechanism": "nbafl", "total_epsilon": 50.0},
            "the promise of total_epsilon is for all 3 rounds",
        ),
        ({"max_uploads": 2}, "max_uploads limits"),
        ({"learning_rate_schedule": "cosine"}, "cosine falls over all 3 rounds"),
        ({"learning_rate_schedule": "exponential"}, None),
    ],
    ids=str,
)
def test_more_rounds_are_refused_where_the_first_ones_would_have_been_others(
    settings: dict[str, Any], why: str | None
) -> None:
    program = build([small(num_rounds=6, **settings)], digits())
    if why is None:
        more_rounds.check(program, 3)
    else:
        with pytest.raises(ValueError, match=why):
            more_rounds.check(program, 3)


def test_a_hook_sees_the_rows_and_ends_the_run_with_its_round(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    seen: list[Any] = []

    def hook(number: int, row: Any) -> object:
        seen.append(dict(row))
        with pytest.raises(TypeError):
            row["round"] = 0
        return run.STOP if number == 3 else None

    summary = train(tmp_path / "run", 5, on_round=hook)
    assert summary["stopped_by"] == "on_round" and summary["rounds"] == 3
    assert summary["most_uploads"] <= 3  # the ledger counts what was uploaded
    assert seen == rows(tmp_path / "run") == rows(whole)[:3]
    train(tmp_path / "run", 5, resume=True)
    assert contents(tmp_path / "run", SAME_BYTES) == contents(whole, SAME_BYTES)


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
    assert best.metric == "validation_accuracy" and best.round_num == 6
    assert not best.waited(None) and best.waited(0) and not best.waited(1)


def test_validation_examples_end_a_run_and_choose_its_best_round(
    tmp_path: pathlib.Path,
) -> None:
    told = {"settings": {"patience": 1, "validation_examples": 100}}
    summary = train(tmp_path, 5, **told)
    found = {row["round"]: row for row in rows(tmp_path)}
    assert summary["stopped_by"] == "patience" and len(found) < 5
    assert summary["best_by"] == "validation_accuracy"
    best = found[summary["best_round"]]
    assert summary["best_accuracy"] == best["test_accuracy"]
    assert 0 < best["validation_loss"] != best["test_loss"]
    assert found[1]["validation_accuracy"] is None  # tested every second round
    text = write_run_report(tmp_path).read_text()
    picked = f"in round {best['round']}, picked on the validation set"
    assert f"best test accuracy ({picked})" in text
    curves = [plot for plot in run_plots(read_run(tmp_path)) if plot.id == "accuracy"]
    assert [curve.name for curve in curves[0].series][1:] == ["on the validation set"]


def test_a_sweep_has_no_patience(tmp_path: pathlib.Path) -> None:
    base: ExperimentConfig = small(patience=2)
    with pytest.raises(ValueError, match="patience must not be set in a sweep"):
        sweep(base, SweepPlan(("none",), (0.5,), (0,)), tmp_path, dataset=digits())
