"""Cumulative ε by adversary, from made-up files; tests/test_run.py has a real run's."""

import json
from pathlib import Path

from fedsvp_jax.report import read
from fedsvp_jax.report.adversaries import adversaries_plot


def test_files_without_weights_have_no_such_plot(run_dir: Path) -> None:
    assert adversaries_plot(read.read_run(run_dir)).series
    path = run_dir / "clients.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        del row["weight"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert not adversaries_plot(read.read_run(run_dir)).series
