"""Frames hold what the files hold."""

import sys
from pathlib import Path

import pytest
from small_runs import read_rows

from fedsvp_jax.report import frames


def test_rounds_and_clients_of_a_run(run_dir: Path) -> None:
    rows = read_rows(run_dir / "metrics.jsonl")
    rounds = frames.rounds(run_dir)
    assert rounds["round"].tolist() == [row["round"] for row in rows]
    spent = [row["epsilon_spent"]["rdp"] for row in rows]
    assert rounds["epsilon_spent_rdp"].tolist() == spent
    missing = [row["test_accuracy"] is None for row in rows]
    assert rounds["test_accuracy"].isna().tolist() == missing
    uploads = read_rows(run_dir / "clients.jsonl")
    clients = frames.clients(run_dir)
    assert len(clients) == len(uploads) == 6 * 3
    assert clients["utilities_3"].iloc[7] == uploads[7]["utilities"][3]
    assert {"shapley_values_0", "shapley_values_1"} <= set(clients.columns)
    mean = clients.groupby("round")["contribution_ratio"].mean()
    assert mean.tolist() == pytest.approx(rounds["contribution_ratio_mean"].tolist())


def test_results_and_table_of_a_sweep(sweep_dir: Path) -> None:
    results = frames.results(sweep_dir)
    assert len(results) == len(read_rows(sweep_dir / "results.jsonl"))
    table = frames.table(sweep_dir)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match=r"pip install 'fedsvp_jax\[frames\]'"):
            frames.table(sweep_dir)
    assert table["mechanism"].tolist() == ["none", *["fedsdp"] * 2, *["fedsva"] * 2]
    assert (table["num_seeds"] == 2).all()
    chosen = results.query("mechanism == 'fedsva' and epsilon == 0.5")
    best = chosen.groupby("seed")["test_accuracy"].max().mean()
    assert table["best_mean"].iloc[-1] == pytest.approx(best)
