"""NaN and infinity: found where they appear, named, and never in a file."""

import json
import logging
import math
import pathlib
from typing import Any

import pytest
from commands import assert_same_bytes
from small_runs import digits, run_small, small

from fedsvp_jax import run

GOES_ON = run.Options(on_divergence="continue")
DIVERGES = {"mechanism": "none", "learning_rate": 1e30, "num_rounds": 4}

pytestmark = pytest.mark.usefixtures("shared_rounds")


def train(folder: pathlib.Path, **named: Any) -> dict[str, Any]:
    return run_small(small(**DIVERGES), folder, **named)


def rows(folder: pathlib.Path, name: str) -> list[dict[str, Any]]:
    return [
        json.loads(line, parse_constant=pytest.fail)
        for line in (folder / name).read_text().splitlines()
    ]


def test_a_diverged_run_ends_in_its_round_and_names_mechanism_round_and_client(
    tmp_path: pathlib.Path,
) -> None:
    for resume in (False, True):
        with pytest.raises(FloatingPointError) as raised:
            train(tmp_path, resume=resume)
        (row,) = rows(tmp_path, "metrics.jsonl")
        first = row["diverged_clients"][0]
        assert str(raised.value).startswith(
            f"mechanism none diverged: the upload of client {first} in round 1 holds "
            "NaN, infinity or a norm beyond float32 (3 of 3 uploads do)"
        )
        assert row["test_loss"] is None and row["model_finite"] is False
        assert len(rows(tmp_path, "clients.jsonl")) == 3
        assert not (tmp_path / "summary.json").exists()
        assert not list((tmp_path).glob("checkpoints/*"))


def test_a_diverged_run_goes_on_when_asked_with_one_warning_and_plain_json(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(FloatingPointError):
        train(tmp_path / "run")
    summary = train(tmp_path / "run", resume=True, on_divergence="continue")
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "mechanism none diverged: the upload of client" in warning.getMessage()
    assert summary["diverged_in_round"] == 1 and summary["rounds"] == 4
    for name in ("metrics.jsonl", "clients.jsonl"):
        assert {row["round"] for row in rows(tmp_path / "run", name)} == {1, 2, 3, 4}
    text = (tmp_path / "run" / "summary.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["diverged_in_round"] == 1
    train(tmp_path / "whole", on_divergence="continue")
    train(tmp_path / "whole", on_divergence="continue", resume=True)
    assert_same_bytes(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", ["fedsva", "nbafl", "reestimation", "dpa", "time_varying", "fedsdp"]
)
def test_every_mechanism_that_diverges_leaves_plain_json_and_counts_every_upload(
    mechanism: str, tmp_path: pathlib.Path
) -> None:
    config = small(mechanism=mechanism, learning_rate=1e30, num_rounds=3)
    summary = run.train(config, tmp_path, dataset=digits(), options=GOES_ON)
    # The clip that reestimation's claim rests on sends what overflows to 0.
    assert summary["diverged_in_round"] == (None if mechanism == "reestimation" else 1)
    for name in ("metrics.jsonl", "clients.jsonl"):
        assert {row["round"] for row in rows(tmp_path, name)} == {1, 2, 3}
    text = (tmp_path / "summary.json").read_text()
    spent = json.loads(text, parse_constant=pytest.fail)["epsilon_spent"]
    assert summary["most_uploads"] >= 1
    if mechanism == "fedsva":  # the noise was applied, so it was spent
        assert spent["basic"] == pytest.approx(0.5 * summary["most_uploads"])
        assert math.isfinite(spent["rdp"])
