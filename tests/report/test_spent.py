"""Every ε stands beside its δ and its status, and only a claimed ε is shown."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_runs import digits, read_rows, small

from fedsvp_jax import report, run
from fedsvp_jax.report import read, spent, tables
from fedsvp_jax.report.run_plots import run_plots
from fedsvp_jax.report.sweep_plots import sweep_plots

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
def test_g18_the_terminals_line_tells_status_and_delta() -> None:
    assert spent.spent_line(SPENT) == (
        f"epsilon_spent (nominal; {MEANING}): basic 10.5 at Σδ = 0.573, rdp 4.9 at"
        " δ = 1e-05"
    )
    assert spent.spent_line(MIXED) == (
        f"epsilon_spent ({MEANING}): basic 10.5 at Σδ = 0.573 (nominal), rdp 4.9 at"
        " δ = 1e-05 (proved)"
    )
    assert spent.spent_line(NOTHING) == "epsilon_spent: none is claimed"
    both = {"FedSDP": "nominal", "NbAFL": "proved", "DPA": "proved", "FedAvg": ""}
    assert spent.axis_title(both, "Σδ") == (
        "ε spent at Σδ (FedSDP: nominal | NbAFL, DPA: proved)"
    )


@pytest.mark.hole
def test_g18_a_table_tells_delta_once_where_all_rows_share_it() -> None:
    rows = spent.columns([SPENT, MIXED, NOTHING])
    head = ("ε spent, basic", "ε spent, rdp, δ = 1e-05", "status")
    assert {tuple(row) for row in rows} == {(*head, "against", "neighbours")}
    whom = ["server", "replace one record"]
    assert [list(row.values()) for row in rows] == [
        ["10.5 at Σδ = 0.573", "4.9", "nominal", *whom],
        ["10.5 at Σδ = 0.573", "4.9", "basic nominal, rdp proved", *whom],
        ["–", "–", "–", "–", "–"],
    ]
    rows = spent.columns([SPENT, SPENT | {"target_delta": 1e-6}])
    shown = [row["ε spent, rdp"] for row in rows]
    assert shown == ["4.9 at δ = 1e-05", "4.9 at δ = 1e-06"]


@pytest.mark.hole
def test_g18_tables_pages_and_figures_tell_status_and_delta(
    run_dir: Path, sweep_dir: Path
) -> None:
    markdown, table = tables.write_tables(sweep_dir)
    fedavg, *others = markdown.read_text().splitlines()[2:]
    assert "nominal" not in fedavg and "Σδ" not in fedavg
    whom = f"nominal | server (neighbours: {RELATION}) |"
    assert all(whom in line for line in others)
    assert "| ε spent at δ = 1e-05 |" in markdown.read_text()
    assert "nominal" in table.read_text() and "status_rdp" in table.read_text()
    page = report.write_run_report(run_dir).read_text()
    facts = re.findall(r"<dt>(ε spent[^<]*)</dt><dd>([^<]*)</dd>", page)
    assert len(facts) == 3
    nominal = "(nominal; against: server)"
    assert all(nominal in name and "δ = " in value for name, value in facts)
    sweep = {p.id: p for p in sweep_plots(read.read_sweep(sweep_dir).results)}
    one = {plot.id: plot for plot in run_plots(read.read_run(run_dir))}
    assert sweep["epsilon_0"].y_title == f"ε spent at Σδ {nominal}"
    assert sweep["epsilon_1"].y_title == f"ε spent at δ = 1e-05 {nominal}"
    assert one["epsilon"].y_title == f"ε spent {nominal}"
    told = [*sweep.values(), one["epsilon"]]
    named = [plot for plot in told if plot.y_title.startswith("ε spent")]
    assert all(f" Neighbours: {RELATION}." in plot.note for plot in named)
    assert "Rényi DP, δ = 1e-05" in [s.name for s in one["epsilon"].series]


@pytest.mark.hole
@pytest.mark.parametrize(
    ("mechanism", "settings", "claims"),
    [
        ("none", {"epsilon": 3.0, "delta": 0.1}, False),
        ("dp_fedavg", {"epsilon": 0.1, "delta": 1e-2}, True),
    ],
)
def test_g19_a_page_shows_the_claimed_epsilon_and_never_the_unread_setting(
    mechanism: str, settings: dict[str, Any], claims: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    config = small(mechanism=mechanism, num_rounds=1, **settings)
    run.train(config, folder, dataset=digits())
    text = report.write_run_report(folder).read_text()
    subtitle = re.search(r"<header><h1>.*?</h1><p>(.*?)</p>", text)
    assert subtitle
    assert ("ε per upload" in subtitle[1]) == claims
    assert ">epsilon</td>" not in text and "--epsilon=" not in text
    if claims:
        (claimed,) = {row["epsilon"] for row in read_rows(folder / "clients.jsonl")}
        whom = "proved; against: outside observer of the final model; neighbours: add"
        assert f"ε per upload {claimed:.4g} at δ′ = 0.01 ({whom}" in subtitle[1]
    else:
        row = read_rows(folder / "metrics.jsonl")[-1]
        assert (row["status"], row["delta_spent"]) == (None, None)


@pytest.mark.hole
def test_g19_results_give_no_epsilon_to_mechanisms_whose_noise_it_does_not_set(
    sweep_dir: Path,
) -> None:
    for name, rows in (
        ("results", read_rows(sweep_dir / "results.jsonl")),
        ("cells", json.loads((sweep_dir / "cells.json").read_text())),
    ):
        unset = {row["epsilon"] is None for row in rows if row["mechanism"] == "none"}
        others = {row["epsilon"] is None for row in rows if row["mechanism"] != "none"}
        assert (unset, others) == ({True}, {False}), name


def test_an_uploads_claim_needs_a_proved_formula_from_epsilon_one_on() -> None:
    rows = [{"epsilon": 0.5, "delta": 0.1}, {"epsilon": 0.5, "delta": 0.13}]
    assert spent.upload_claim(rows, "delta") == "0.1 to 0.13"
    assert spent.upload_claim([*rows, {"delta": None}], "delta") == ""
    assert spent.upload_status(rows, MIXED) == "proved"
    assert spent.upload_status([{"epsilon": 1.0}], MIXED) == "nominal"
    assert spent.upload_status([{"epsilon": None}], NOTHING) == ""
