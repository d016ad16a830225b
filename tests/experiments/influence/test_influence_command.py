"""`python -m experiments.influence`, as typed."""

import json
import os
import pathlib
from typing import Any

import pytest
from commands import Ended, assert_same_bytes, succeeds

from experiments import kept_rows

FOLDER = os.environ.get("FEDSVP_DATA")
SAME = ("config.json", "runs.jsonl", "summary.json")


def run(path: pathlib.Path, *more: str) -> Ended:
    done = succeeds("experiments.influence", f"--output_dir={path}", *more)
    return done


def summary_of(path: pathlib.Path) -> dict[str, Any]:
    return json.loads((path / "summary.json").read_text())


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("influence") / "run"
    done = run(path, "--num_runs=3", "--baselines=none,oracle,lazy")
    assert "recall" in done.stdout and "figure3.svg" in done.stdout
    return path


@pytest.mark.slow
def test_digits_without_vote_noise_is_filtered(digits: pathlib.Path):
    summary = summary_of(digits)
    assert summary["recall"] >= 0.95 and summary["precision"] >= 0.95
    for name in ("recall", "precision", "accuracy", "f1"):
        assert 0 <= summary[f"{name}_std"] <= 0.2
    results = kept_rows.read(digits / "runs.jsonl")
    table = [result for result in results if result["part"] == "table"]
    assert [result["run"] for result in table] == [0, 1, 2]
    mean = sum(result["recall"] for result in table) / 3
    assert abs(mean - summary["recall"]) < 1e-12
    for name in ("figure3.svg", "figure4.svg"):
        assert "<svg" in (digits / name).read_text()


@pytest.mark.slow
def test_the_baselines_frame_the_filter(digits: pathlib.Path):
    rows = {row["filter"]: row for row in summary_of(digits)["baselines"]}
    assert rows["oracle"]["f1"] == 1.0 and rows["none"]["recall"] == 0.0
    assert rows["none"]["precision"] is None
    assert rows["lazy"]["f1"] > 0.9
    best = rows["oracle"]["model_accuracy"]
    assert rows["lazy"]["model_accuracy"] == pytest.approx(best, abs=0.05)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bytes(
    digits: pathlib.Path, tmp_path: pathlib.Path
):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("config.json", "runs.jsonl"):
        (folder / name).write_bytes((digits / name).read_bytes())
    lines = (folder / "runs.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "runs.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:40])
    run(folder, "--num_runs=3", "--baselines=none,oracle,lazy", "--resume")
    assert_same_bytes(folder, digits, SAME)


@pytest.mark.slow
def test_features_are_projected_before_they_are_sent(tmp_path: pathlib.Path):
    """Noise in 100 numbers (10 classes) hides less than in 2,490."""
    line = ("--model=scatter_linear", "--backbone=random", "--num_runs=2")
    line += ("--max_train_examples=1400", "--contribution_noise=0.3")
    f1 = {}
    for name, more in (("all", ()), ("few", ("--influence_projection=10",))):
        run(tmp_path / name, *line, *more, f"--features_dir={tmp_path}")
        f1[name] = summary_of(tmp_path / name)["f1"]
    config = json.loads((tmp_path / "few" / "config.json").read_text())
    assert config["num_train_examples"] == 1400
    assert f1["few"] > f1["all"]


def test_the_plan_is_printed_without_running(tmp_path: pathlib.Path):
    folder = tmp_path / "run"
    line = ["--plan", "--vote_epsilon=1", "--num_participants=100"]
    planned = succeeds("experiments.influence", *line, f"--output_dir={folder}")
    assert "f = 0.755081" in planned.stdout and "0.622459" in planned.stdout
    assert "epsilon 49.5 by basic composition" in planned.stdout
    assert "all that one participant sends" in planned.stdout
    assert not folder.exists()
