"""The study of estimators, as it is typed, and the page that shows it."""

import json
import pathlib
import shlex

import pytest
from commands import assert_refused, succeeds

from experiments.shapley import study

DOCS = pathlib.Path(__file__).parents[3] / "docs"
SMALL = (
    "--dataset=digits",
    "--model=mlp",
    "--num_attributes=3",
    "--num_clients=4",
    "--num_hbc_clients=0",
    "--cohort_size=2",
    "--rounds=1,2",
    "--repeats=5",
    "--estimators=additive:0,additive:2,paired:6,orders:2,in_run:1,equal:0",
)


def test_the_study_reports_errors_costs_and_coverage_and_is_resumed(
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "study"
    succeeds("experiments.shapley", *SMALL, f"--output_dir={folder}")
    results = json.loads((folder / "results.json").read_text())
    # What repeats the study on another machine.
    assert sorted(shlex.split(results["command"])[3:]) == sorted(SMALL)
    table = {(row["estimator"], row["round"]): row for row in results["table"]}
    assert len(table) == 12
    for (name, _), row in table.items():
        least, most = (0, 0) if name in ("in_run:1", "equal:0") else (1, 9)
        assert least <= row["trainings"] <= most
    assert table["in_run:1", 1]["value_error"] != table["equal:0", 1]["value_error"]
    assert table["additive:0", 1]["covered"] is None
    assert table["additive:0", 1]["trainings"] == 3
    # Three pairs of three attributes are all there are.
    assert table["paired:6", 1]["value_error"] < 1e-5
    assert table["paired:6", 1]["covered"] == 1
    assert 1 <= table["paired:6", 1]["trainings"] <= 6
    assert table["orders:2", 2]["value_error"] > 0
    kept = (folder / "results.json").read_bytes()
    (folder / "games" / "2.npz").unlink()
    succeeds("experiments.shapley", *SMALL, "--resume", f"--output_dir={folder}")
    assert (folder / "results.json").read_bytes() == kept


def test_what_cannot_be_studied_is_refused(tmp_path: pathlib.Path) -> None:
    messages = {
        "--estimators=exact:1": "estimators must be additive:M",
        "--estimators=in_run:3": "in_run:M needs M of 1 or 2",
        "--estimators=paired:3": "shapley_trainings must be even",
        "--rounds=0": "rounds must be integers >= 1",
        "--num_attributes=11": "num_attributes must be at most 10",
    }
    assert_refused(("experiments.shapley", *SMALL), messages, tmp_path / "none")


def test_coverage_counts_values_and_the_private_one_apart() -> None:
    estimate = {
        "values": [[0.2, 0.4], [0.5, 0.1]],
        "margins": [[0.15, 0.05], [0.1, 0.1]],
        "ratio": [1 / 3, 5 / 6],
        "trainings": [2, 4],
        "steps": [1.0, 2.0],
    }
    row = {"values": [0.3, 0.3], "ratio": 0.5, "estimates": {"paired:2": estimate}}
    found = study.summarize([row], "paired:2", private=0)
    assert found["covered"] == pytest.approx(1 / 4)
    assert found["ratio_covered"] == pytest.approx(1 / 2)
    assert found["ratio_error"] == pytest.approx((1 / 6 + 1 / 3) / 2)
    assert found["value_error"] == pytest.approx((0.1 / 4) ** 0.5)
    assert (found["trainings"], found["steps"]) == (3, 1.5)
