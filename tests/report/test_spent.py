"""Every ε stands beside its δ and its status, and only a claimed ε is shown."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from small_runs import digits, read_rows, small

from experiments import printed
from fedsvp_jax import report, run
from fedsvp_jax.accounting import claims
from fedsvp_jax.federation import build
from fedsvp_jax.report import curves, headline, read

SPENT = {
    "epsilon_spent": {"basic": 10.5, "rdp": 4.9},
    "delta_spent": 0.573,
    "target_delta": 1e-5,
    "status": {"basic": "nominal", "rdp": "nominal"},
    "adversary": "server",
    "relation": "replace one record",
}
MEANING = "against: server; neighbours: replace one record"
RELATION = "replace one record of a client"
MIXED = SPENT | {"status": {"basic": "nominal", "rdp": "proved"}}
NOTHING: dict[str, Any] = dict.fromkeys(SPENT)


@pytest.mark.hole
def test_the_terminals_line_tells_status_and_delta() -> None:
    assert headline.filled("spent", MIXED) == (
        f"epsilon_spent ({MEANING}): basic 10.5 at Σδ = 0.573 (nominal), rdp 4.9 at"
        " δ = 1e-05 (proved)"
    )
    assert headline.filled("spent", NOTHING) == "epsilon_spent: none is claimed"


@pytest.mark.hole
def test_a_table_tells_the_least_epsilon_and_delta_once() -> None:
    """Basic composition's ε, at another δ, counts where no other is known."""
    rows = headline.cells("spent", [SPENT, MIXED, NOTHING])
    head = ("ε spent at δ = 1e-05", "status", "against")
    assert {tuple(row) for row in rows} == {head}
    whom = "server (neighbours: replace one record)"
    assert [list(row.values()) for row in rows] == [
        ["4.9", "nominal", whom],
        ["4.9", "proved", whom],
        ["–", "–", "–"],
    ]
    rows = headline.cells("spent", [SPENT, SPENT | {"target_delta": 1e-6}])
    shown = [row["ε spent"] for row in rows]
    assert shown == ["4.9 at δ = 1e-05", "4.9 at δ = 1e-06"]
    (row,) = headline.cells(
        "spent", [SPENT | {"epsilon_spent": {"basic": 1, "rdp": 4.9}}]
    )
    assert row["ε spent at δ = 1e-05"] == "4.9"  # basic's δ is another
    (row,) = headline.cells("spent", [SPENT | {"epsilon_spent": {"basic": 10.5}}])
    assert row["ε spent at δ = 1e-05"] == "10.5 at Σδ = 0.573"


@pytest.mark.hole
def test_tables_pages_and_figures_tell_status_and_delta(
    run_dir: Path, sweep_dir: Path
) -> None:
    files = read.read_sweep(sweep_dir)
    printed.sweep_tables(sweep_dir)
    markdown, table = sweep_dir / "table.md", sweep_dir / "table.csv"
    fedavg, *others = markdown.read_text().splitlines()[2:7]
    assert "nominal" not in fedavg and "Σδ" not in fedavg
    whom = f"nominal | server (neighbours: {RELATION}) |"
    assert all(whom in line for line in others)
    assert "| ε spent at δ = 1e-05 |" in markdown.read_text()
    assert "nominal" in table.read_text() and "status_rdp" in table.read_text()
    page = report.write_run_report(run_dir).read_text()
    ((name, value),) = re.findall(r"<dt>(ε of the run[^<]*)</dt><dd>([^<]*)</dd>", page)
    assert "(nominal), against the server" in name and "δ = " in value
    sweep = curves.curves(files)
    for plots in (sweep, curves.curves(read.read_run(run_dir))):
        (plot,) = (plot for plot in plots if plot.id == "epsilon")
        assert plot.y_title == "ε spent at δ = 1e-05 (nominal)"
        assert f"neighbours: {RELATION}." in plot.note


@pytest.mark.hole
@pytest.mark.parametrize(
    ("mechanism", "settings", "claims"),
    [
        ("none", {"epsilon": 3.0, "delta": 0.1}, False),
        ("dp_fedavg", {"epsilon": 0.1, "delta": 1e-2}, True),
    ],
)
def test_a_page_shows_the_claimed_epsilon_and_never_the_unread_setting(
    mechanism: str, settings: dict[str, Any], claims: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    config = small(mechanism=mechanism, num_rounds=1, **settings)
    run.train(config, folder, dataset=digits())
    text = report.write_run_report(folder).read_text()
    assert ("ε of the run" in text) == claims
    assert ">epsilon</td>" not in text and "--epsilon=" not in text
    row = read_rows(folder / "metrics.jsonl")[-1]
    if claims:
        whom = "against whoever sees the published model</dt>"
        assert f"(proved, if the seed stays secret), {whom}" in text
    else:
        summary = json.loads((folder / "summary.json").read_text())
        for record in (row, summary):
            named = ("status", "delta_spent", "target_delta")
            assert [record[name] for name in named] == [None] * 3


@pytest.mark.hole
def test_results_give_no_epsilon_to_mechanisms_whose_noise_it_does_not_set(
    sweep_dir: Path,
) -> None:
    for name, rows in (
        ("results", read_rows(sweep_dir / "results.jsonl")),
        ("cells", json.loads((sweep_dir / "cells.json").read_text())),
    ):
        unset = {row["epsilon"] is None for row in rows if row["mechanism"] == "none"}
        others = {row["epsilon"] is None for row in rows if row["mechanism"] != "none"}
        assert (unset, others) == ({True}, {False}), name


@pytest.mark.hole
def test_a_sum_of_deltas_of_1_or_more_has_no_epsilon() -> None:
    """`basic 10.5 at Σδ = 2.32` was printed: at δ >= 1 anything holds."""
    spent = headline.filled("spent", MIXED | {"delta_spent": 2.32})
    assert "basic none at Σδ = 2.32 (nominal), rdp 4.9" in spent


@pytest.mark.hole
def test_files_say_no_epsilon_where_the_sum_of_deltas_reaches_1(tmp_path: Path) -> None:
    """The console said none, the files the sum of ε, which nothing stands for."""
    all_upload = {"num_clients": 3, "num_hbc_clients": 0, "cohort_size": 3}
    config = small(
        mechanism="nbafl",
        delta=0.4,
        target_delta=1e-5,
        clipping="update_clip",
        num_rounds=3,
        **all_upload,
    )
    run.train(config, tmp_path / "run", dataset=digits())
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    each = read_rows(tmp_path / "run" / "clients.jsonl")[0]["epsilon"]
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    assert [row["delta_spent"] for row in rows] == pytest.approx([0.4, 0.8, 1.2])
    spent = [row["epsilon_spent"]["basic"] for row in rows]
    assert spent[:2] == pytest.approx([each, 2 * each]) and spent[2] is None
    assert rows[2]["status"]["basic"] == "nominal"
    assert summary["epsilon_spent"]["basic"] is None
    assert summary["by_client"]["epsilon"] == [None] * 3
    assert summary["by_client"]["delta"] == pytest.approx([1.2] * 3)
    (basic,) = (row for row in summary["guarantees"] if row["method"] == "basic")
    assert (basic["epsilon"], basic["status"]) == (None, "nominal")
    assert "basic none at Σδ = 1.2 (nominal)" in headline.filled("spent", summary)
    report.write_run_report(tmp_path / "run")
    planned = claims.planned_row(build([config], digits()).accounts[0])
    assert planned["delta_spent"] == pytest.approx(1.2)
    assert planned["epsilon_spent"]["basic"] == math.inf
