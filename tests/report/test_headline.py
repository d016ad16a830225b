"""The sentences in front name the ε, its adversary and what the model is worth."""

import json
import pathlib
from typing import Any

import pytest

from fedsvp_jax.report import headline
from fedsvp_jax.run import published_scores

ROW = {
    "adversary": "server",
    "relation": "replace one record, of a client",
    "method": "pld",
    "epsilon": 2.93,
    "delta": 1e-5,
    "proved": True,
    "status": "proved",
    "copies": 1,
    "assumptions": "one; two",
}
SUMS = "one; secure aggregation shows the sum of a cohort alone"
COLLUDING = ROW | {
    "adversary": "honest-but-curious clients, 1 colluding",
    "epsilon": 0.5,
    "assumptions": SUMS,
}
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
FEW = "too few test rows for this noise"
ACCURATE = (
    "accuracy 80.0 % (95 %: 60.0 to 90.0), where always saying “no” gives about 70.0 %"
)


def of(*rows: dict[str, Any], **summary: Any) -> str:
    whole = {"guarantees": [*rows], "adversary": rows[-1]["adversary"]} | summary
    return headline.filled("privacy", whole | {"relation": ROW["relation"]})


@pytest.mark.hole
def test_the_sentence_begins_with_whom_the_epsilon_holds_against() -> None:
    """It was "changes the view of the honest-but-curious clients, 1 colluding by …"."""
    told = of(ROW | {"method": "rdp", "epsilon": 3.1}, ROW)
    assert told.startswith(
        "Against the server, which sees every upload: ε = 2.93 at δ = 1e-05 for "
        "replacing one record, of a client (proved). Somebody who knows everything but "
    )
    assert "are right; without the model, 50. Whoever sees less, as readers of" in told
    broken = "sees every upload, which secure aggregation is to hide, so that"
    told = of(ROW | {"epsilon": 34.36, "assumptions": broken}, COLLUDING)
    assert told.startswith(
        "Against the server, which sees sums alone, helped by one client that tells it "
        "all it knows, and against any one other client: ε = 0.5 at δ = 1e-05 for "
        "replacing one record, of a client (proved). Somebody who knows everything but"
    )
    assert told.endswith(  # the guesses of 0.5 stood behind 34.36
        "without the model, 50. Whoever sees less, as readers of the published model "
        "do, learns no more. Against the server, if the secure summation is broken and "
        "it sees each client's upload: ε = 34.36, which promises no protection."
    )
    several = COLLUDING["adversary"].replace("1", "12")
    told = of(COLLUDING | {"adversary": several})
    assert "alone, helped by up to 12 clients that tell it all they know" in told
    assert "against up to 12 clients that pool what they know" in told
    assert told.count("Against") == 1
    weak = COLLUDING | {"epsilon": 0.6, "assumptions": "one"}
    assert "Against any one other client: ε = 0.6 at" in of(weak)


def test_copies_bare_adversaries_and_reasons_follow() -> None:
    copied = [
        ROW | {"copies": 9, "epsilon": epsilon, "relation": "copies"}
        for epsilon in (6.76, 7)
    ]
    assert (
        "With a copy at each of 9 clients: ε = 6.76, which promises no protection."
        in of(ROW, *copied)
    )
    bare = ROW | {"method": "none", "epsilon": None, "proved": False}
    told = of(bare, COLLUDING)
    assert "Against the server, which sees every upload: nothing is hidden." in told
    why = "nominal, because the bounds of age were taken from the records"
    row = ROW | {"status": "nominal", "assumptions": f"one; {why}"}
    assert f"({why})" in of(row)
    row = ROW | {"status": "nominal", "assumptions": "granted, not proved: that C"}
    assert "(nominal, since it is granted, not proved: that C)" in of(row)
    assert "bounds" not in of(ROW)
    assert "bounds, bought from the rows, are counted: ε = 0.25." in of(
        ROW, bounds_epsilon=0.25
    )
    told = headline.filled(
        "privacy", {"guarantees": [], "mechanism": "none", "adversary": None}
    )
    assert told == "This run hides nothing (mechanism none)."


@pytest.mark.hole
def test_scores_stand_beside_guessing_and_no_privacy(tmp_path: pathlib.Path) -> None:
    """It was FedAvg, whose AUC on medpar lay below the model's. "Keeps 101 %" of the
    gain in AUC stood without an interval."""
    summary = {"guarantees": [ROW], "adversary": "server", "test_scores": SCORES}
    (tmp_path / "reference.json").write_text(
        json.dumps(SCORES | {"accuracy": 0.85, "auc": 0.92})
    )
    sentences = headline.sentences(tmp_path, summary)
    told, more = sentences["quality"], sentences["details"]
    for part in ("on 100 test rows: 80.0 %", "accuracy 85.0 %", "70.0 %"):
        assert part in told
    assert "keeps" not in told
    assert "log loss 0.400; test rows by class: no 70, yes 30" in more
    assert headline.filled("quality", {}) == headline.filled("details", {}) == ""


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ([0.01, 0.07], "+1.0 to +7.0): the federated model is better."),
        ([-0.02, 0.1], "-2.0 to +10.0): which one is better is open."),
        ([-0.03, -0.01], "-3.0 to -1.0): the federated model is worse."),
    ],
)
def test_each_clients_own_model_stands_beside_it(
    tmp_path: pathlib.Path, ends: list[float], verdict: str
) -> None:
    """A board's first question: is it better than our own model alone?"""
    summary = {"guarantees": [ROW], "adversary": "server", "test_scores": SCORES}
    middle = sum(ends) / 2
    own = {"pairs": 1234, "auc": [0.57 + middle, 0.57], "difference": middle}
    own |= {"interval": ends}
    assert headline.sentences(tmp_path, summary)["alone"] == ""
    (tmp_path / "reference.json").write_text(json.dumps(SCORES | {"alone": own}))
    assert headline.sentences(tmp_path, summary)["alone"] == (
        "Each client's own model (logistic regression on its rows alone, without "
        "privacy), on the same test rows: of 1,234 pairs (two rows of one client that "
        "differ in class) it ranks 57.0 % right, the federated model "
        f"{57 + 100 * middle:.1f} %. The difference is {100 * middle:+.1f} points "
        f"(95 %: {verdict}"
    )


@pytest.mark.parametrize(
    ("area", "lower", "reference", "dataset", "warns"),
    [
        (1.0, 0.983, {}, "csv", True),
        (0.9, 0.85, {"auc": 0.999, "auc_interval": [0.99, 1]}, "csv", True),
        (1.0, 0.983, {}, "digits", False),  # a benchmark
        (1.0, 0.7, {}, "csv", False),  # of a few rows
        (0.97, 0.96, {}, "csv", False),
        (None, 0.0, {}, "csv", False),
    ],
)
def test_an_auc_near_1_asks_for_a_column_of_the_outcome(
    area: float | None,
    lower: float,
    reference: dict[str, Any],
    dataset: str,
    warns: bool,
) -> None:
    """A date of discharge alive gave "Better than guessing: AUC 1.000"."""
    scores = {"test_scores": SCORES | {"auc": area, "auc_interval": [lower, 1.0]}}
    told = headline.filled("leak", scores, reference, {"dataset": dataset})
    assert ("Is a column known only after the outcome?" in told) == warns
    assert headline.filled("leak", {}, {}, {"dataset": "csv"}) == ""


@pytest.mark.hole
def test_the_verdict_is_that_of_auc_with_its_interval() -> None:
    """AUC .9 was "no better than guessing, though it ranks" where accuracy was not."""
    told = headline.filled("quality", {"test_scores": SCORES | {"accuracy": 0.7}})
    assert told == (
        "Better than guessing: AUC 0.900 (95 %: 0.820 to 0.947), of guessing 0.5. "
        "Accuracy on 100 test rows: 70.0 % (95 %: 60.4 to 78.1), where "
        "always saying “no” gives 70.0 %."
    )
    weak = {"auc": 0.69, "auc_interval": [0.5, 0.8]}
    old = {name: SCORES[name] for name in SCORES if name != "verdict"}
    told = headline.filled("quality", {"test_scores": old | weak})
    assert told.startswith("Not shown to be better than guessing: AUC 0.690")
    scored = {"test_scores": SCORES}, {}, "rows"
    assert "Accuracy on 100 rows: " in headline.filled("quality", *scored)
    ruled = {"verdict": "as the rule says"}
    told = headline.filled("quality", {"test_scores": SCORES | ruled})
    assert told.startswith("As the rule says: AUC 0.900")
    unknown = {"auc": None, "auc_interval": [0.0, 1.0]}
    assert "AUC – (95" in headline.filled("quality", {"test_scores": SCORES | unknown})


@pytest.mark.parametrize(
    ("confusion", "verdict"),
    [  # McNemar's χ² with its correction: 14²/35 = 5.6, 1²/20, 18²/28; the limit 3.84.
        (
            [[60, 10], [5, 25]],
            "On 35 rows only one of the two, the model or always saying “no”, is r",
        ),
        (
            [[60, 10], [5, 25]],
            " the model on 25, “no” on 10. The model is right more often.",
        ),
        (
            [[61, 9], [19, 11]],
            "“no” on 9. The model is not shown to be right more often.",
        ),
        ([[44, 26], [28, 2]], "“no” on 26. The model is wrong more often."),
        ([[70, 0], [30, 0]], ""),
    ],
)
def test_predictions_are_compared_with_always_naming_one_class(
    confusion: Any, verdict: str
) -> None:
    """The reader was left with two intervals that overlap."""
    scores = {"test_scores": SCORES | {"confusion": confusion}}
    told = headline.filled("quality", scores)
    assert verdict in told and ("only one of the two" in told) == bool(verdict)


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
    told = headline.filled("privacy", {"guarantees": [row], **row})
    assert "ε = 2.93 at δ = 1e-05 for one row used or left out (proved)." in told
    assert "at even odds, whether it was used" in told
    assert headline.filled("change", row) == "one row used or left out"
    person = rule.format("all rows of a person (at most 3)") + "stay"
    assert headline.filled("change", {"relation": person}) == (
        "all rows of a person (at most 3) used or left out"
    )
    assert headline.filled("change", ROW) == ROW["relation"]


@pytest.mark.hole
def test_a_model_that_names_one_class_is_said_to() -> None:
    """It was "better than guessing" of a model that predicted death for nobody."""
    scores = SCORES | {"confusion": [[70, 0], [30, 0]]}
    told = headline.filled("quality", {"test_scores": scores})
    assert "It predicts “no” for every row: use its probabilities, not its p" in told
    for verdict, advice in {
        "ranks better than guessing, its probabilities are worse": ": use the order of",
        "not shown to be better than guessing": ".",
    }.items():
        worse = {"test_scores": scores | {"verdict": verdict}}
        assert f"“no” for every row{advice}" in headline.filled("quality", worse)
    both = SCORES | {"confusion": [[60, 10], [5, 25]]}
    assert "every test row" not in headline.filled("quality", {"test_scores": both})


def test_guesses_about_a_test_row_stand_beside_the_scores_that_are_published() -> None:
    """An accuracy stood alone, where naming one class gives .7; and beside a training
    row's 70 guesses of 100 a test row had 96.
    """
    scores = ROW | {"adversary": "public", "epsilon": 3.0, "rows": 9}
    scores |= {"accuracy": [0.8, 0.6, 0.9], "AUC": [0.75, 0.5, 0.875]}
    scores |= {"guessing": 0.7, "most_frequent": "no", "risk": {"right_of_100": 64.04}}
    told = headline.filled("published", scores)
    for part in (
        "in the counts of 9 test rows: AUC 0.750 (95 %: 0.500 to 0.875), accuracy 80.0",
        "always saying “no” gives about 70.0 %.",
        "ε = 3 at δ = 1e-05",
        "At most 65 of 100 guesses about a test row are right.",
    ):
        assert part in told
    relation = "leave out all rows of a person for the test"
    told = headline.filled("published", scores | {"relation": relation})
    assert (
        "guesses about a person whose rows are for the test are right." in told
        and "too few" not in told
    )
    assert headline.filled("published", None) == ""


@pytest.mark.hole
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"AUC": [0.02, 0.0, 1.0]}, ACCURATE + "; " + FEW + " to tell AUC"),
        ({"AUC": [1.0, 0.8, 1.0]}, "AUC between 0.80 and 1.00, " + ACCURATE),
        ({"AUC": [0.6, 0.3, 0.8]}, "AUC between 0.30 and 0.80, " + ACCURATE),
        ({"AUC": [1.0, 0.97, 1.0]}, "AUC 1.000 (95 %: 0.970 to 1.000), " + ACCURATE),
        ({"accuracy": [0.0, 0.0, 0.1]}, "accuracy between 0 and 10 %"),
        (
            {"accuracy": [0.5, 0.0, 1.0], "share": [0.5, 0.2, 0.7]},
            "share of the second class between 20 and 70 %; " + FEW + " to tell acc",
        ),
        ({"AUC": [0.0, 0.0, 1.0], "accuracy": [1.0, 0.0, 1.0]}, FEW),
    ],
)
def test_of_a_score_that_noise_hides_the_interval_stands_alone(
    changes: dict[str, list[float]], sentence: str
) -> None:
    """To be published were "AUC 0.020 (95 %: 0.000 to 1.000)" and "AUC 1.00"."""
    scores = {"accuracy": [0.8, 0.6, 0.9], "guessing": 0.7, "most_frequent": "no"}
    told = published_scores.describe_scores(scores | changes)
    assert told.startswith(sentence) and told.count("always saying") == (
        ACCURATE in sentence
    )
    assert told == " ".join(told.split())
    published = ROW | {"adversary": "public", "risk": {"right_of_100": 64.04}}
    published |= scores | changes | {"rows": 9}
    assert f"test rows: {told}. Against" in headline.filled("published", published)
