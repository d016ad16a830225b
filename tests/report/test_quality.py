"""The page of a table's run: its result first, and what each score would tell."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_folders import change, page_data

from fedsvp_jax import report
from fedsvp_jax.data.tables import scores


def eight_rows() -> dict[str, Any]:
    """Of 8 rows of three clients, one of which did not train."""
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    chance = np.array([0.1, 0.2, 0.6, 0.3, 0.4, 0.7, 0.8, 0.9])
    chances = np.stack([1 - chance, chance], 1)
    clients = ["Basel", "Basel", "Bern", "", "Basel", "Bern", "Bern", "Bern"]
    return scores.of_table(chances, labels, ("no", "yes"), clients)


def test_confusion_curves_and_clients_are_those_worked_out_by_hand() -> None:
    """At .6 and above one of four is a false alarm, and three of four are found."""
    of_rows = eight_rows()
    assert of_rows["confusion"] == [[3, 1], [1, 3]]
    steps = set(
        zip(of_rows["roc"]["false_alarms"], of_rows["roc"]["recognised"], strict=True)
    )
    assert {(0.0, 0.75), (0.25, 0.75), (0.25, 1.0), (1.0, 1.0)} <= steps
    assert of_rows["by_client"] == {
        "Basel": {"rows": 3, "right": 2},
        "Bern": {"rows": 4, "right": 3},
    }
    (bin_,) = of_rows["calibration"]
    assert bin_ == {"chance": pytest.approx(0.5), "rows": 8, "positive": 4}
    many = scores.of_table(
        np.tile([[0.75, 0.25]], (200, 1)), np.arange(200) % 4 // 3, None
    )
    rows = [part["rows"] for part in many["calibration"]]
    assert rows == [20] * 10 and sum(p["positive"] for p in many["calibration"]) == 50


@pytest.mark.hole
def test_a_tables_page_begins_with_its_result_epsilon_and_verdict(
    run_dir: Path,
) -> None:
    """It began with the best accuracy picked on the test set, and ε of an upload."""
    change(run_dir / "summary.json", test_scores=eight_rows())
    text = report.write_run_report(run_dir).read_text()
    facts = re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", text)
    (epsilon, _), (_, verdict), (name, area), (_, accuracy), *_ = facts
    assert verdict == "better than guessing" and epsilon.startswith("ε of the run")
    said = "75.0 % (95 %: 40.9 to 92.9), where always saying “yes” gives 50.0 %"
    assert accuracy == said
    assert name.startswith("AUC") and area.startswith("0.938 (95 %: 0.5")
    assert "picked on the test set" not in text and "ε per upload" not in text
    assert "Basel</td>" in text and "66.7 (20.8 to 93.9)" in text
    drawn = {plot["id"] for plot in page_data(text)["plots"]}
    assert {"roc", "calibration"} <= drawn


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"public_test": True}, "may be published"),
        ({"public_test": False, "publish_scores": False}, "keep it to yourself"),
        ({"public_test": False, "publish_scores": True}, "keep it to yourself"),
    ],
)
def test_the_page_says_what_scores_cost(
    settings: dict[str, bool], word: str, run_dir: Path
) -> None:
    change(run_dir / "summary.json", test_scores=eight_rows())
    change(run_dir / "config.json", **settings)
    assert word in report.write_run_report(run_dir).read_text()


@pytest.mark.hole
def test_a_map_of_equal_uploads_is_not_drawn(run_dir: Path) -> None:
    """3,000 grey cells stood on the page of a run whose uploads have one noise."""
    rows = [
        json.loads(line) | {"noise_std": 0.1, "contribution_ratio": None}
        for line in (run_dir / "clients.jsonl").read_text().splitlines()
    ]
    path = run_dir / "clients.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = report.write_run_report(run_dir).read_text()
    assert 'id="cells"' not in text and page_data(text)["cells"] == {}
