"""`--attack=canaries`, as typed: a run's bound and estimate beside its claim."""

import json
import pathlib

import pytest
from commands import succeeds

from experiments.attack import canaries
from fedsvp_jax.config import ExperimentConfig, resolve

CONFIG = resolve(ExperimentConfig(**canaries.DEFAULTS))


def row(run: canaries.Run) -> dict:
    return canaries.run_row(run, CONFIG, num_canaries=60, dimension=4096)


def test_one_run_of_dp_fedavg_is_estimated_near_its_epsilon():
    found = row(canaries.RUNS[0])
    claim = found["claims"]["pld"]
    assert found["proved"] and found["uploads"] == 4 and sum(found["canaries"]) == 60
    assert 0.5 < found["one_run"] < claim
    assert found["one_shot"]["low"] < claim < 1.3 * found["one_shot"]["high"]
    assert found["one_shot"]["epsilon"] > 0.5 * claim
    (judged,) = canaries.with_verdicts([found])
    assert judged["status"] == "holds"


@pytest.mark.parametrize(
    ("name", "least"),  # records of validation examples have no chance to be seen
    [("gaussian, update_clip", 60), ("gaussian, attribute_records", 40)],
)
def test_every_client_uploads_once_where_uploads_are_seen(name, least):
    found = row(next(run for run in canaries.RUNS if run.name == name))
    assert found["uploads"] == 1 and least <= sum(found["canaries"]) <= 60
    shot, claim = found["one_shot"], found["claims"]["pld"]
    assert shot["low"] < claim < 1.3 * shot["high"]


def test_a_claim_that_is_too_small_is_violated():
    rows = [
        {"p_values": {"rdp": 0.01, "pld": 0.01}},
        {"p_values": {"rdp": 0.9, "pld": 0.03}},
    ]
    judged = canaries.with_verdicts(rows)
    assert [one["status"] for one in judged] == ["VIOLATED", "holds"]


@pytest.mark.slow
def test_the_command_prints_every_run(tmp_path: pathlib.Path):
    folder = tmp_path / "run"
    line = ("experiments.attack", "--attack=canaries", "--num_canaries=40")
    succeeds(*line, "--canary_dimension=2048", f"--output_dir={folder}")
    rows = json.loads((folder / "results.json").read_text())["rows"]
    assert [one["run"] for one in rows] == [run.name for run in canaries.RUNS]
    assert all(one["status"] == "holds" for one in rows)
