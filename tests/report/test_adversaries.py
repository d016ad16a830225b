"""Cumulative ε by adversary; tests/run/test_one_run.py compares it to the ledger."""

from pathlib import Path

from small_folders import read_rows, write_rows

from fedsvp_jax.report import read
from fedsvp_jax.report.adversaries import adversaries_plot


def test_rows_of_an_older_version_have_no_such_plot(run_dir: Path) -> None:
    assert adversaries_plot(read.read_run(run_dir)).series
    path = run_dir / "metrics.jsonl"
    rows = read_rows(path)
    for row in rows:
        del row["rdp_by_adversary"]
    write_rows(path, rows)
    assert not adversaries_plot(read.read_run(run_dir)).series
