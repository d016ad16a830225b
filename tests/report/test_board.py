"""The first sheet of report.html: what a board decides by."""

import json
import re
from pathlib import Path

import pytest
from scored_runs import SCORES, scored
from small_folders import change

from fedsvp_jax import report


def test_the_sheet_answers_what_a_board_asks(run_dir: Path) -> None:
    """Scores, ε and warnings stood among technical words, on fourteen sheets."""
    sheet = scored(run_dir)
    for part in (
        "because the model is better than guessing, and at most 96 of 100 guesses",
        "Conditions: 96 of 100 is bearable for these data; no smaller ε does as well",
        "From 1 column of t.csv (age) it estimates the chance of each class of “ill”",
        "Yes. Of a row of class “yes” and one of “no”, it gives the first the higher",
        "in 91.6 of 100 such pairs; a guesser, in 50. 100 test rows leave some doubt: ",
        "with 95 % confidence it is 82.2 to 94.7 of 100. If it has to name a class, it",
        "where always saying “no” gives 74.3 %: right more often.",
        "guesses are right; without the model, 50. This is proved, if all holds that ",
        "postman NO PROTECTION is promised (ε = 25.6)",
        "Whether 96 of 100 is bearable",
        "With it may go protection.html and schema.toml; noise.key is deleted",
    ):
        assert part in sheet, (part, sheet)
    title = re.search("<title>(.*?)</title>", (run_dir / "report.html").read_text())
    assert title and title[1].startswith("Predicting “ill” on t.csv: better than gue")


def test_the_sheet_has_each_hospitals_own_model_and_a_leak(run_dir: Path) -> None:
    assert "own model" not in scored(run_dir)
    ends = {"difference": 0.04, "interval": [0.01, 0.07]}
    own = {"pairs": 1200, "auc": [0.61, 0.57], **ends}
    beside = run_dir / "reference.json"
    beside.write_text(json.dumps(SCORES | {"alone": own}))
    sheet = scored(run_dir)
    assert "Is it better than a hospital&#39;s own" in sheet.replace("'", "&#39;")
    assert "(95 %: +1.0 to +7.0): the federated model is better." in sheet
    assert "Warning" not in sheet and "Recommended: take" in sheet
    ends = {"difference": 0.01, "interval": [-0.02, 0.04]}
    beside.write_text(json.dumps(SCORES | {"alone": own | ends}))
    sheet = scored(run_dir).replace("&#39;", "'")
    assert "stay with each client's own model where there is one, for" in sheet
    assert "Else take ε = 3, because the model is better than guessing" in sheet
    ends = {"difference": -0.18, "interval": [-0.27, -0.08]}
    beside.write_text(json.dumps(SCORES | {"alone": own | ends}))
    sheet = scored(run_dir)
    assert (
        "Recommended: where a client has a model of its own, keep that" in sheet
        and "rule out that at one client classes are swapped" in sheet
    )
    near = {"auc": 0.999, "auc_interval": [0.985, 1.0]}
    assert "Is a column known only after the outcome?" in scored(run_dir, **near)


def test_a_few_test_rows_by_client_stand_last(run_dir: Path) -> None:
    """Some forty hospitals of 1 to 21 rows stood in front of all privacy."""
    assert 'id="tested"' not in (scored(run_dir), report_of(run_dir))[1]
    parts = {name: {"rows": 3, "right": 1} for name in ("Bern", "Genf")}
    scored(run_dir, by_client=parts)
    page = report_of(run_dir)
    last = page.split("<section ")[-1]
    assert last.startswith('id="tested"') and "A few rows tell nothing of a" in last
    assert page.count("33.3 (") == 2


def report_of(run_dir: Path) -> str:
    return (run_dir / "report.html").read_text()


def test_the_sheet_sends_to_warnings_about_the_rows(run_dir: Path) -> None:
    """They stood on the console alone."""
    assert "about the rows" not in scored(run_dir) + report_of(run_dir)
    ignored = "columns that the schema does not name are ignored: <id>"
    change(run_dir / "summary.json", notices=[ignored])
    page = report.write_run_report(run_dir).read_text()
    assert "about the rows" not in page and "Note: columns that the schema does" in page
    change(run_dir / "summary.json", notices=[ignored, "values of column <pid> repeat"])
    page = report.write_run_report(run_dir).read_text()
    assert "<strong>Read the warnings about the rows below</strong>" in page
    assert "<li>values of column &lt;pid&gt; repeat</li>" in page
    assert "<li>columns" not in page


def test_the_sheet_of_a_useless_or_nominal_model_says_no(run_dir: Path) -> None:
    worse = {"verdict": "not shown to be better than guessing"}
    sheet = scored(run_dir, proved=False, **worse)
    assert "Not shown to be better than guessing." in sheet and "Yes" not in sheet
    assert "1. " not in sheet and "Not to use it: nothing shows" in sheet
    assert "Recommended: do not use this model, because nothing shows that" in sheet
    assert "Recommended: keep this model to yourself" in scored(run_dir, proved=False)
    assert "It is not proved: nominal" in sheet and "Nothing to publish" in sheet
    assert "Whether the model may leave" not in sheet and "bearable" not in sheet


@pytest.mark.parametrize("secret", [True, False])
def test_a_seed_is_no_promise(run_dir: Path, secret: bool) -> None:
    scored(run_dir)
    change(run_dir / "config.json", secret_noise=secret)
    page = report.write_run_report(run_dir).read_text()
    assert ("whoever knows the seed of this run, or tries all" in page) != secret
    assert ("Nothing to publish: no protection is proved" in page) != secret
