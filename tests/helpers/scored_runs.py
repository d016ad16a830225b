"""A small run, made to look like one on a table with scores."""

import json
import re
from pathlib import Path
from typing import Any

from small_folders import change

from fedsvp_jax import report

SCORES = {
    "accuracy": 0.8712,
    "guessing": 0.7434,
    "auc": 0.9156,
    "balanced_accuracy": 0.7523,
    "log_loss": 0.4378,
    "counts": {"no": 70, "yes": 30},
    "auc_interval": [0.8217, 0.9471],
    "verdict": "better than guessing",
}

CONFUSION = [[69, 1], [12, 18]]
SCHEMA = """schema = 1
unit = "row"
[label]
column = "ill"
classes = ["no", "yes"]
[columns.age]
type = "number"
bounds = [0, 100]
[columns.id]
type = "drop"
"""


def scored(run_dir: Path, proved: bool = True, **scores: Any) -> str:
    """The text of the sheet, of a run on a table."""
    summary = json.loads((run_dir / "summary.json").read_text())
    row = next(
        row
        for row in summary["guarantees"]
        if row["adversary"] == summary["adversary"] and row["method"] == "rdp"
    )
    row |= {"epsilon": 3.0, "delta": 1e-5, "proved": proved}
    row |= {"status": "proved" if proved else "nominal", "copies": 1}
    broken = row | {"adversary": "postman", "epsilon": 25.6}
    change(
        run_dir / "summary.json",
        guarantees=[row, broken],
        risk={},
        test_scores=SCORES | {"confusion": CONFUSION} | scores,
    )
    settings = {"secret_noise": True, "data_dir": "in/t.csv", "dataset": "csv"}
    change(run_dir / "config.json", **settings, public_test=False)
    (run_dir / "schema.toml").write_text(SCHEMA)
    page = report.write_run_report(run_dir).read_text()
    sheet = page.split('<section id="board"')[1].split("</section>")[0]
    return " ".join(re.sub("<[^>]*>", " ", sheet).split())
