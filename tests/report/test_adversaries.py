"""Cumulative ε by adversary; tests/run/test_one_run.py compares it to the ledger."""

from pathlib import Path

from small_folders import read_rows, write_rows

from fedsvp_jax.report import read
from fedsvp_jax.report.adversaries import adversaries_plot


def test_files_without_weights_have_no_such_plot(run_dir: Path) -> None:
    assert adversaries_plot(read.read_run(run_dir)).series
    path = run_dir / "clients.jsonl"
    rows = read_rows(path)
    for row in rows:
        del row["weight"]
    write_rows(path, rows)
    assert not adversaries_plot(read.read_run(run_dir)).series
