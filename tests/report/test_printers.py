"""All that prints an ε says the same number of the same events, and what it means."""

import json
from pathlib import Path
from typing import Any

import pytest
from page_parts import guarantee_table
from small_runs import digits, read_rows, small

from fedsvp_jax import run
from fedsvp_jax.accounting.claims import planned_row
from fedsvp_jax.accounting.participation import SEED
from fedsvp_jax.federation import build
from fedsvp_jax.report import (
    epsilon_page,
    guarantees,
    headline,
    labels,
    read,
    tables,
)
from fedsvp_jax.run.sweep import SweepPlan, sweep

# Claims against other adversaries and of other relations, in one table.
MECHANISMS = ("gaussian", "dp_fedavg")
TOLD = {
    "clipping": "update_clip",
    "epsilon": 0.3,
    "noise_multiplier": 2.0,
    "delta": 1e-5,
    "model": "mlp",
    "num_clients": 4,
    "cohort_size": 4,  # so that nothing random decides who uploads
    "num_hbc_clients": 0,
    "num_rounds": 2,
}
METHODS = ("basic", "rdp", "pld")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("printers") / "sweep"
    plan = SweepPlan(MECHANISMS, (0.3,), seeds=(0,))
    sweep(small(mechanism="gaussian", **TOLD), plan, folder, dataset=digits())
    return folder


@pytest.mark.hole
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_printer_says_one_number_and_what_it_means(
    mechanism: str, swept: Path, tmp_path: Path
) -> None:
    """ε against other adversaries stood in one column, and nothing said so."""
    config = small(mechanism=mechanism, **TOLD)
    folder = tmp_path / "run"
    run.train(config, folder, dataset=digits())
    summary = json.loads((folder / "summary.json").read_text())
    wanted, status = summary["epsilon_spent"], summary["status"]
    whom = {"adversary": summary["adversary"], "relation": summary["relation"]}
    meant = f"against: {whom['adversary']}; neighbours: {whom['relation']}"

    def says_so(told: dict[str, Any]) -> None:
        assert told["epsilon_spent"] == pytest.approx(wanted, rel=1e-5)
        for name in ("status", "adversary", "relation", "target_delta"):
            assert told[name] == summary[name], name
        assert told["delta_spent"] == pytest.approx(summary["delta_spent"])

    # Before the run, after its last round, and as a cell among others.
    says_so(planned_row(build([config], digits()).accounts[0]))
    last = read_rows(folder / "metrics.jsonl")[-1]
    says_so(last)
    of_cell = [
        row
        for row in (
            *read_rows(swept / "results.jsonl"),
            *json.loads((swept / "cells.json").read_text()),
        )
        if row["mechanism"] == mechanism and row.get("round") in (None, 2)
    ]
    assert len(of_cell) == 2
    for row in of_cell:
        says_so(row)
    assert of_cell[1]["guarantees"] == summary["guarantees"]
    # The table of guarantees, and the sentence in front.
    rows = [row for row in summary["guarantees"] if row["copies"] == 1]
    for method in ("rdp", "pld"):
        claim = whom | {"method": method}
        (row,) = (row for row in rows if claim.items() <= row.items())
        assert (row["epsilon"], row["status"]) == (wanted[method], status[method])
    page = guarantee_table(guarantees.strongest([summary]))
    who = {"server": "the server, which sees every upload"}.get(
        whom["adversary"], "whoever sees the published model"
    )
    assert labels.significant(wanted["pld"]) in page and who in page
    sentence = headline.filled("privacy", summary)
    least = labels.significant(wanted["pld"])
    assert sentence.startswith(f"Against {who}: ε = {least} at δ = 1e-05 for ")
    # The terminal, and the tables of a sweep and of a comparison.
    line = headline.filled("spent", summary)
    assert meant in line and f"pld {wanted['pld']:.4g} at δ = 1e-05" in line
    label = headline.cells("shown", tables.summarize(of_cell[:1]), [])[0]["mechanism"]
    swept_rows = headline.cells(
        "shown", tables.summarize(read.read_sweep(swept).results), []
    )
    compared = headline.cells("compared", read.read_all([folder, swept]))
    of_mechanism = [
        row
        for row in (*swept_rows, *compared)
        if label.startswith(row["mechanism"].partition(",")[0])
    ]
    assert len(of_mechanism) == 3
    (columns,) = headline.cells("spent", [summary | {"assumption": SEED}])
    for row in of_mechanism:
        assert columns.items() <= row.items()
    points = epsilon_page.document(read.read_sweep(swept))["points"]
    (point,) = (one for one in points if one["adversary"] == whom["adversary"])
    assert point["epsilon"] == wanted["pld"]
    (row,) = (r for r in point["guarantees"] if whom.items() <= r.items())
    assert (row["epsilon"], row["status"]) == (wanted["pld"], status["pld"])
