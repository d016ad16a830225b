"""The sentences in front name the ε, its adversary and what the model is worth."""

import json
import pathlib

import pytest

from fedsvp_jax.report import headline

ROW = {
    "adversary": "server",
    "relation": "replace one record, of a client; others are not protected",
    "method": "pld",
    "epsilon": 2.93,
    "delta": 1e-5,
    "proved": True,
    "assumptions": "one; two",
}
COLLUDING = ROW | {"adversary": "clients, 1 colluding", "epsilon": 0.5}
SCORES = {
    "accuracy": 0.8,
    "guessing": 0.7,
    "auc": 0.9,
    "balanced_accuracy": 0.75,
    "log_loss": 0.4,
    "counts": {"no": 70, "yes": 30},
    "auc_interval": [0.82, 0.947],
    "verdict": "better than guessing",
}


def test_the_sentence_is_about_the_adversary_of_the_claim() -> None:
    rows = [ROW | {"method": "rdp", "epsilon": 3.1}, ROW, COLLUDING]
    told = headline.privacy({"guarantees": rows, "adversary": "server"})
    assert told == (
        "Replacing one record, of a client, changes the view of the server by at most "
        "ε = 2.93 at δ = 1e-05 (proved, unless one of its 2 assumptions fails); others "
        "are not protected."
    )
    told = headline.privacy({"guarantees": rows, "adversary": "clients, 1 colluding"})
    assert "clients, 1 colluding by at most ε = 0.5" in told
    assert told.endswith("Against the server: ε = 2.93.")
    equal = [ROW | {"epsilon": 0.5}, COLLUDING]
    told = headline.privacy({"guarantees": equal, "adversary": "clients, 1 colluding"})
    assert "Against" not in told
    copied = [ROW | {"copies": 9, "epsilon": epsilon} for epsilon in (6.76, 7)]
    copied.append(copied[0] | {"epsilon": 6, "method": "pld, 90 planned rounds"})
    told = headline.privacy({"guarantees": [ROW, *copied], "adversary": "server"})
    assert told.endswith("With a copy at each of 9 clients: ε = 6.76.")
    bare = ROW | {"method": "none", "epsilon": None, "proved": False}
    told = headline.privacy(
        {"guarantees": [bare, COLLUDING], "adversary": "clients, 1 colluding"}
    )
    assert told.endswith("Against the server: nothing is hidden.")
    why = "nominal, because the bounds of age were taken from the records"
    row = ROW | {"proved": False, "assumptions": f"one; {why}"}
    told = headline.privacy({"guarantees": [row], "adversary": "server"})
    assert f"({why})" in told
    told = headline.privacy({"guarantees": [], "mechanism": "none", "adversary": None})
    assert told == "This run hides nothing (mechanism none)."


@pytest.mark.hole
def test_scores_stand_beside_guessing_and_no_privacy(tmp_path: pathlib.Path) -> None:
    """It was FedAvg, whose AUC on medpar lay below the model's. .4 / .42 = .952."""
    summary = {"guarantees": [ROW], "adversary": "server", "test_scores": SCORES}
    (tmp_path / "reference.json").write_text(
        json.dumps(SCORES | {"accuracy": 0.85, "auc": 0.92})
    )
    _, told, more = headline.sentences(tmp_path, summary)
    for part in ("accuracy 0.800 on 100 test rows", "0.850", "0.700", "keeps 95 %"):
        assert part in told
    assert "log loss 0.400; test rows by class: no 70, yes 30" in more
    assert headline.filled("quality", {}) == headline.filled("details", {}) == ""


@pytest.mark.hole
def test_the_verdict_is_that_of_auc_with_its_interval() -> None:
    """AUC .9 was "no better than guessing, though it ranks" where accuracy was not."""
    told = headline.filled("quality", {"test_scores": SCORES | {"accuracy": 0.7}})
    assert told == (
        "Better than guessing: AUC 0.900 (95 %: 0.820 to 0.947), accuracy 0.700 on 100 "
        "test rows. Guessing: AUC 0.5, accuracy 0.700 by the most frequent class."
    )
    told = headline.filled("quality", {"test_scores": SCORES | {"verdict": "x y"}})
    assert told.startswith("X y: AUC 0.900")
    unknown = {"auc": None, "auc_interval": [0.0, 1.0]}
    assert "AUC – (95" in headline.filled("quality", {"test_scores": SCORES | unknown})


@pytest.mark.hole
def test_the_mean_predicted_risk_stands_beside_the_observed_share() -> None:
    """Of 40 and 60 rows with mean .2 and .4: .32. Wilson's of .3: .219 to .396."""
    bins = [
        {"chance": 0.2, "rows": 40, "positive": 5},
        {"chance": 0.4, "rows": 60, "positive": 25},
    ]
    told = headline.filled("details", {"test_scores": SCORES | {"calibration": bins}})
    assert told.startswith(
        "Share of class yes on the test rows: predicted 32.0 % on average, observed "
        "30.0 % (95 %: 21.9 to 39.6), which, published, tells how many of these rows "
    )


@pytest.mark.hole
def test_a_row_that_is_left_out_is_said_plainly() -> None:
    """It was "Leaving one record of a client out of its batches, whose other …"."""
    rule = "leave {} of a client out of its batches, whose other records and divisors "
    row = ROW | {"relation": rule.format("one record") + "stay"}
    told = headline.privacy({"guarantees": [row], "adversary": "server"})
    assert told == (
        "One row more or less changes the view of the server by at most ε = 2.93 at δ "
        "= 1e-05 (proved, unless one of its 2 assumptions fails). More or less: left "
        "out of the client's batches, whose other rows and divisors stay."
    )
    assert headline.filled("change", row) == "one row more or less"
    person = rule.format("all rows of a person (at most 3)") + "stay"
    assert headline.filled("change", {"relation": person}) == (
        "all rows of a person (at most 3) more or less"
    )
    assert headline.filled("change", ROW) == ROW["relation"]
