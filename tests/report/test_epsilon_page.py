"""epsilon.html and epsilon.json: what they say is what the sweep's files say."""

import json
from pathlib import Path

import pytest

from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.report import (
    epsilon_page,
    guarantees,
    headline,
    read,
    style,
    write_sweep_report,
)


def test_every_sweep_has_a_page_whose_numbers_are_its_cells(sweep_dir: Path) -> None:
    write_sweep_report(sweep_dir)
    told = json.loads((sweep_dir / "epsilon.json").read_text())
    cells = json.loads((sweep_dir / "cells.json").read_text())
    assert told["guessing"] == cells[0]["guessing"]
    assert told["reference"]["seeds"] == 2 and len(told["points"]) == 4
    point = next(one for one in told["points"] if one["mechanism"] == "FedSVA")
    assert not point["promised"] and point["uploads_left"] is None
    main = next(
        one for one in point["guarantees"] if one["adversary"] == point["adversary"]
    )
    assert main["status"] == "nominal" and main["epsilon"] == point["epsilon"]
    of = [one for one in cells if (one["mechanism"], one["epsilon"]) == ("fedsva", 0.1)]
    assert main["epsilon"] == max(one["epsilon_spent"]["pld"] for one in of)
    assert main["risk"] in [one["risk"][point["adversary"]] for one in of]


@pytest.mark.hole
def test_the_risk_beside_a_promise_is_the_promises() -> None:
    """It was that of the tally, which is smaller and nominal; the status, proved."""
    row = {"adversary": "server", "relation": "one", "delta": 1e-5, "copies": 1}
    tally = row | {"method": "pld", "epsilon": 1.0, "status": "nominal"}
    proved = row | {"method": "promise by pld", "epsilon": 5.0, "status": "proved"}
    risk = {"server": tradeoff.risk([(1.0, 1e-5)])}
    cell = {"guarantees": [tally, proved], "risk": risk, "relation": "one"}
    (told,) = guarantees.strongest([cell])
    assert (told["status"], told["epsilon"]) == ("proved", 5.0)
    assert told["risk"] == tradeoff.risk([(5.0, 1e-5)])
    (told,) = guarantees.strongest([cell | {"guarantees": [tally]}])
    assert told["risk"] == risk["server"]


def test_a_run_at_its_promise_has_the_risk_of_what_was_spent() -> None:
    """It was that of one (ε, δ), 96 of 100 instead of 65, where rounding said so."""
    row = {"adversary": "server", "relation": "one", "delta": 1e-5, "copies": 1}
    row |= {"status": "proved"}
    spent = row | {"method": "pld", "epsilon": 3 * (1 + 1e-7)}
    promise = row | {"method": "promise by pld", "epsilon": 3.0}
    risk = {"server": tradeoff.risk([(3.0, 1e-5), (0.1, 0.2)])}
    cell = {"guarantees": [spent, promise], "risk": risk, "relation": "one"}
    (told,) = guarantees.strongest([cell])
    assert told["risk"] == risk["server"]


@pytest.mark.hole
def test_the_card_of_a_bound_of_no_use_begins_with_that() -> None:
    """At ε = 25.6 it said "proved", and no more."""
    claim = {"status": "proved", "right": 100}
    bound = "NO PROTECTION is promised (this ε is proved)"
    assert headline.filled("bound", claim) == bound
    assert headline.filled("bound", claim | {"right": 99}) == "proved"
    assert "status: one.bound" in style.asset("epsilon.js")


def test_the_page_of_a_plan_lets_choose_the_trust(sweep_dir: Path) -> None:
    """Its menu and its table called kinds of trust mechanisms."""
    content = epsilon_page.document(read.read_sweep(sweep_dir)) | {"choice": "trust"}
    content["reference"] |= {"best": [0.6, 0.9], "needed": 0.6, "tried": [[0.6], [0.8]]}
    for point in content["points"]:
        point["accuracy"] |= {"needed": 0.62, "tried": [[0.58], [0.8]]}
    page, _ = epsilon_page.write_epsilon_page(sweep_dir, content)
    assert "reaches<br>  AUC 0.65: " in page.read_text()
    assert "steps cost this much AUC in the mean" in page.read_text()
    assert ">trust\n<select" in page.read_text()
    assert '<th scope="col">trust</th>' in page.read_text()


def test_a_sweep_that_claims_nothing_has_no_such_page(sweep_dir: Path) -> None:
    files = read.read_sweep(sweep_dir)
    rows = [row for row in files.results if row["mechanism"] == "none"]
    bare = read.SweepFiles(files.config, rows, files.cells[:2], {})
    content = epsilon_page.document(bare)
    assert content["points"] == []
    assert epsilon_page.write_epsilon_page(sweep_dir / "a", content) == []
    assert not (sweep_dir / "a").exists()


def test_of_one_seed_the_interval_is_that_of_its_test_rows(sweep_dir: Path) -> None:
    """Wilson's for 90 of 100 right: .8256 to .9448."""
    files = read.read_sweep(sweep_dir)
    rows = [row | {"test_accuracy": 0.9} for row in files.results if row["seed"] == 0]
    cells = [one | {"test_rows": 100} for one in files.cells if one["seed"] == 0]
    content = epsilon_page.document(read.SweepFiles(files.config, rows, cells, {}))
    accuracy = content["reference"]
    assert accuracy["interval"] == "95 % interval of 100 test rows, 1 seed"
    assert accuracy["lower"] == pytest.approx(0.8256, abs=1e-4)
    assert accuracy["upper"] == pytest.approx(0.9448, abs=1e-4)
