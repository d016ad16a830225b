"""protection.html holds nothing but what may be published."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from scored_runs import SCHEMA, SCORES, scored
from small_folders import change, copy

from fedsvp_jax import report
from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.core.files import Record
from fedsvp_jax.report import guarantees, headline, page

pytestmark = pytest.mark.hole


def page_of(run_dir: Path) -> str:
    report.write_run_report(run_dir)
    return (run_dir / "protection.html").read_text()


def prove(run_dir: Path, **promise: Any) -> Record:
    """Makes the run's claim a proved one of ε = 3, or of another promise."""
    summary = json.loads((run_dir / "summary.json").read_text())
    claim: Record = next(
        row
        for row in summary["guarantees"]
        if row["adversary"] == summary["adversary"] and row["method"] == "rdp"
    )
    claim |= {"epsilon": 3.0, "delta": 1e-5, "status": "proved"} | promise
    relation = promise.get("relation", claim["relation"])
    change(run_dir / "summary.json", guarantees=[claim], relation=relation)
    return claim


def test_the_page_states_claim_assumptions_and_nist_parts(run_dir: Path) -> None:
    text = page_of(run_dir)
    summary = json.loads((run_dir / "summary.json").read_text())
    claim = min(
        (row["epsilon"], row)
        for row in summary["guarantees"]
        if (row["adversary"], row["copies"]) == (summary["adversary"], 1)
        and row["method"] in ("rdp", "pld")
    )[1]
    for part in (
        "nominal, since it is granted, not proved",
        f"{claim['epsilon']:.4g}",
        "the server, which sees every upload",
        claim["relation"],
        *claim["assumptions"].split("; "),
        *("Whoever knows the seed of this run can subtract", "unit of privacy"),
        *("trust model", "side channels", "query model"),
        summary["params_sha256"],
    ):
        assert part.replace("'", "&#39;").replace("<", "&lt;") in text, part


def test_the_page_is_about_this_run_alone(run_dir: Path) -> None:
    """The server was "proved" at ε = 34, "13 assumptions" were numbered to 16, and the
    page named flags of other runs."""
    summary = json.loads((run_dir / "summary.json").read_text())
    mine = next(
        row
        for row in summary["guarantees"]
        if row["adversary"] == summary["adversary"] and row["method"] == "rdp"
    )
    texts = {"relation": "leave one record of a client out", "proved": True}
    mine |= texts | {"epsilon": 3.0, "status": "proved", "assumptions": "one; two"}
    open_ = mine | {"adversary": "postman", "epsilon": 50.0, "assumptions": "all; two"}
    change(
        run_dir / "summary.json", guarantees=[mine, open_], relation=mine["relation"]
    )
    text = page_of(run_dir)
    assert '<td data-head="here">no score is published</td>' in text
    assert "one row: whether it was used" in text
    assert '<ol start="1"><li>One.</li><li>Two.</li></ol>' in text
    assert "<ol><li>one</li><li>two</li></ol>" in text
    assert "Against postman: ε = 50, which promises no protection." in text
    assert "NO PROTECTION is promised (this ε is proved)</td>" in text
    assert "--" not in text.split("<body")[1]
    front, *folded = text.split("<details>")
    assert mine["relation"] not in front and "SP 800-226" not in front
    assert len(folded) == 4  # with the record's words of the assumptions


@pytest.mark.parametrize(
    ("promise", "secret", "answer"),
    [
        (
            {"epsilon": 1.0},
            True,
            "calls ε up to 1 strong. Take it if the line “chosen”",
        ),
        ({"epsilon": 1.00000004}, True, "calls ε up to 1 strong. Take it if the line"),
        (
            {"epsilon": 3.0},
            True,
            "ε up to 1 strong, and up to 10, as here, reasonable.",
        ),
        ({"epsilon": 10.5}, True, "Hardly. A usual scale"),
        ({"epsilon": 40.0}, True, "No: it promises no protection."),
        (
            {"epsilon": 3.0},
            False,
            "No: as published, nothing is hidden, since the seed",
        ),
        ({"epsilon": 1.0, "status": "nominal"}, True, "No number can say so, since"),
    ],
)
def test_the_choice_of_epsilon_is_judged_beside_others(
    run_dir: Path, promise: dict[str, Any], secret: bool, answer: str
) -> None:
    """An officer read one ε, and nothing to hold it against."""
    row = prove(run_dir, **promise)
    risk = {row["adversary"]: tradeoff.of_promises([(row["epsilon"], 1e-5, "rdp")])}
    change(run_dir / "summary.json", risk=risk)
    change(run_dir / "config.json", secret_noise=secret, target_delta=1e-5)
    text = page_of(run_dir)
    # Text for an assessment claims nothing that the page does not.
    protects = not answer.startswith("No")
    front, _, copied = text.partition("data protection impact assessment")
    assert bool(copied) == protects
    if protects:  # an officer copied that there are 9, and none of them
        lists = [re.findall(r"<ol start.*?</ol>", part) for part in (front, copied)]
        assert lists[0] and lists[0] == lists[1]
    page = " ".join(text.split('<section id="assumptions"')[0].split())
    answered = page.split("a reasonable choice?</strong>")[1]
    assert answer in answered, page[-900:]
    # At ε = 0.1, whose model was of no use: "Else take a smaller one".
    assert ("take that one." in answered) == ("as here" in answer)
    cells = re.findall('<td class="num" data-head="[^"]*">([^<]*)</td>', page)
    rows = [cells[n : n + 5] for n in range(0, len(cells), 5)]
    # e, e³ and e⁸; .5725, .6902 and .8947 of noise that Rényi's ε counts.
    # Advantages of 78.9 and 14.5 stood there as twice the guesses that were rounded up.
    assert ["8", "2,981", "90", "79", "342"] in rows
    assert ["1" + ", chosen" * (row["epsilon"] < 1.1), "2.72", "58", "15", "21"] in rows


def test_no_epsilon_stands_beside_one_whose_risk_is_of_more_than_it() -> None:
    """Of sampled batches 72 of 100, say, at an ε = 3 that alone allows 96."""
    claim = {"epsilon": 3.0, "delta": 1e-5}
    exact, other = tradeoff.risk([(3.0, 1e-5)], exact=True), {"right_of_100": 72.0}
    choices = guarantees.choices(claim | {"risk": exact})
    assert [round(row["right_of_100"], 1) for row in choices.values()] == [
        55.3,
        64.0,
        79.8,
    ]
    other |= {"exact": False}
    assert guarantees.choices(claim | {"risk": other}) == {3.0: other}


@pytest.mark.hole
def test_technical_words_are_folded_behind_a_sentence(run_dir: Path) -> None:
    """They stood among the sentences, as "the words of the record", and no sentence
    said that trainings after the page's are not counted."""
    text = page_of(run_dir)
    front, details = text.split('<section id="details"')
    assert "<details" not in front and "words of the record" not in text
    assert "For a statistician: what the bounds rest on" in details
    assert "counts none that came after it was written" in front
    for term in (
        "a cohort, the clients of a round",
        "Threefry and Philox, generators",
        "z·Δ the",
    ):
        assert term in details  # the lawyer's question, at each first use
    assert "A client is whoever holds rows" in front
    assert "δ is roughly the chance with which this bound may fail" in front


@pytest.mark.hole
def test_nothing_that_noise_does_not_hide_stands_on_it(run_dir: Path) -> None:
    """No seed, fingerprint or score, and no hash by which a guess is confirmed."""
    published: dict[str, Any] = {"accuracy": [0.8625, 0.81, 0.91], "guessing": 0.6}
    published |= {"AUC": [0.75, 0.7, 0.8], "most_frequent": "no"}
    published |= {"risk": tradeoff.risk([(3.0, 1e-5)], exact=True)}
    published |= {"rows": 100, "epsilon": 3.0, "delta": 1e-5, "adversary": "public"}
    published |= {"relation": "replace one test row", "proved": True}
    published |= {"status": "proved", "assumptions": "the counter is trusted"}
    change(run_dir / "config.json", seed=918273, data_dir="/home/eve/secret.csv")
    change(run_dir / "config.json", public_test=False, dataset="csv")
    change(run_dir / "config.json", secret_noise=True)
    prove(run_dir)
    assert "does not protect the rows for the test" in page_of(run_dir)
    change(run_dir / "summary.json", test_scores=SCORES, published_scores=published)
    text = page_of(run_dir)
    config = json.loads((run_dir / "config.json").read_text())
    secrets = [str(config["seed"]), config["data_fingerprint"], "/home/eve"]
    secrets += [f"{SCORES[name]:.3f}" for name in ("accuracy", "auc", "log_loss")]
    for name in ("config.json", "summary.json", "metrics.jsonl", "clients.jsonl"):
        secrets.append(hashlib.sha256((run_dir / name).read_bytes()).hexdigest())
    assert [secret for secret in secrets if secret in text] == []
    assert "AUC 0.750 (95 %: 0.700 to 0.800), accuracy 86.2 % (95 %: 81.0 to" in text
    assert "where always saying “no” gives about 60.0 %" in text
    assert not re.search("<script", text)
    # Title, claim and NIST's row said the training rows' ε alone, which was less.
    assert text.count("of rows for the test, by the published scores, ε = 3") >= 3
    # 65 of 100 stood for all rows.
    first = text.split("The unit of protection")[0]  # not below "not covered" alone
    assert "for the test (100 of the " in first
    assert "by the published scores: at most 65 of 100 guesses are right" in first
    # The text to copy ended on what it had just promised, and lacked conditions.
    front, copied = text.split("data protection impact assessment")
    for part in (front, copied):
        assert "for the published scores</h3><ul><li>The counter is trusted.<" in part
        assert "does not protect the rows for the test" not in part
        assert "Rows for the test have their own promise, above, by the sc" in part
    assert "by the published scores: ε = 3 at δ = 1e-05, and at most 65 of" in copied
    sizes = json.loads((run_dir / "config.json").read_text())
    trained = f"“{sizes['num_train_examples']} rows of "
    assert trained in copied and f"; {sizes['num_test_examples']} others tested" in text
    assert "full precision" not in text  # whose files must not be published
    # Where both promises are alike, one sentence says it.
    right = int(re.search(r"for training, by the model: at most (\d+)", first)[1])
    epsilon = float(re.search(r", ε = ([\d.]+); of rows for the test", text)[1])
    published |= {"epsilon": epsilon, "risk": {"right_of_100": right - 0.5}}
    change(run_dir / "summary.json", published_scores=published)
    text = page_of(run_dir)
    assert "of rows for the test, by the published scores" not in text
    assert f"which the published scores count: at most {right} of 100" in text
    # A number stood alone that noise had made.
    published |= {"AUC": [1.0, 0.8, 1.0]}
    change(run_dir / "summary.json", published_scores=published)
    own_page = report.write_run_report(run_dir).read_text()
    for text in (own_page, (run_dir / "protection.html").read_text()):
        assert "AUC between 0.80 and 1.00" in text and "AUC 1.0" not in text
    assert own_page.count("AUC between 0.80 and 1.00") == 2  # among the facts, too


@pytest.mark.hole
def test_runs_beside_a_run_on_the_same_table_are_added_up(run_dir: Path) -> None:
    """Three runs at ε = 3 on one table were three times ε = 3, without a word."""

    def put(name: str, table: str, epsilon: float, **changed: Any) -> Path:
        folder = copy(run_dir, run_dir.with_name(name))
        settings = {"dataset": "csv", "data_dir": table, "public_test": False}
        change(folder / "config.json", **settings)
        prove(folder, epsilon=epsilon, **changed)
        return folder

    def sentence(folder: Path) -> str:
        summary = json.loads((folder / "summary.json").read_text())
        return " ".join(headline.sentences(folder, summary).values())

    first = put("a", "in/t.csv", 3.0)
    assert "beside this one" not in sentence(first)
    unlike = put("unlike", "t.csv", 9.0, relation="leave one record of a client out")
    assert "beside this one. It hides nothing, or something else: no" in sentence(first)
    shutil.rmtree(unlike)
    put("b", "./t.csv", 2.5)
    put("other", "u.csv", 70.0)
    put("open", "t.csv", 70.0)
    (run_dir.with_name("open") / "summary.json").unlink()
    (run_dir.with_name("broken")).mkdir()
    (run_dir.with_name("broken") / "summary.json").write_text("{")
    (run_dir.with_name("broken") / "config.json").write_text("{")
    assert (
        "1 other run on a file named t.csv lies beside this one. If both models are "
        "published, their ε add up: ε = 5.5 at δ = 2e-05 for replacing one record of a "
        "client, against the server, which sees every upload (proved, if the seed "
        "stays secret). Runs in other folders, sweeps"
    ) in sentence(first)
    assert "ε = 3, of this run without others on the same table, a re" in page_of(first)
    change(first / "config.json", secret_noise=True)
    text = page_of(first)
    assert "Published with the others it is ε = 5.5: reasonable." in text
    # The text to copy had this run's ε alone.
    summed = "their ε add up: ε = 5.5 at δ = 2e-05"
    assert summed in text.split("data protection impact assessment")[1]
    prove(run_dir.with_name("b"), epsilon=8.0)
    judged = page_of(first).split("a reasonable choice?</strong>")[1]
    assert judged.startswith("\nHardly, if the others are published too. Together they")
    assert "have ε = 11, and a usual" in judged and "Yes, by custom" not in judged
    prove(run_dir.with_name("b"), epsilon=2.5)
    put("c", "t.csv", 1.0, status="nominal")
    put("d", "t.csv", 1.0, relation="leave one record of a client out")
    put("e", "t.csv", 1.0, adversary="nobody")
    assert (
        "4 other runs on a file named t.csv lie beside this one. If the models of all "
        "3 but those that follow are published, their ε add up: ε = 6.5 at δ = 3e-05 "
        "for replacing one record of a client, against the server, which sees every "
        "upload (nominal). 2 of the others hide nothing, "
        "or something else: no sum counts them. Runs"
    ) in sentence(first)
    assert "ε = 6.5 at δ = 3e-05" in page_of(first)
    assert "Published with the others it is ε = 6.5: not proved." in page_of(first)
    assert "beside this one on 20" in page_of(first)
    copy(run_dir, run_dir.with_name("again"))
    assert "beside" not in sentence(run_dir)  # of digits, which are public


def test_the_page_names_columns_classes_and_what_is_to_be_decided(
    run_dir: Path,
) -> None:
    """An officer could not see what the model learns from; a draft's entries, which
    the records decided, are not shown."""
    assert "learns from" not in page_of(run_dir)
    scored(run_dir)
    front, details = page_of(run_dir).split('<section id="details"')
    learned = (
        "The model learns from 1 column: age. It predicts the classes of “ill”: no"
    )
    assert learned in front
    for blank in ("to be written here: purpose", "legal basis", "retention, erasure"):
        assert f'<p>{blank}: <span class="blank">' in front
    assert "bounds = [0.0, 100.0]</td>" in details
    assert "was stated without a look at the rows." in details
    text = (run_dir / "schema.toml").read_text()
    (run_dir / "schema.toml").write_text(
        text.replace("bounds = [0, 100]", "bounds = [3, 97]\nfrom_data = [3, 97]")
    )
    drafted = page_of(run_dir)
    assert "learns from" not in drafted and "97.0" not in drafted


@pytest.mark.hole
def test_clients_that_train_nothing_are_counted(run_dir: Path) -> None:
    parts = {"Bern": {"rows": 60, "right": 50}, "Genf": {"rows": 38, "right": 30}}
    change(run_dir / "summary.json", test_scores=SCORES | {"by_client": parts})
    assert "alone train nothing" not in page_of(run_dir)
    change(run_dir / "config.json", public_test=False)
    assert (
        "Clients that have rows for the test alone train nothing: theirs are 2 of the "
        "100 rows for the test.</li>"
    ) in page_of(run_dir)
    parts["Bern"]["rows"] = 62
    change(run_dir / "summary.json", test_scores=SCORES | {"by_client": parts})
    assert "alone train nothing" not in page_of(run_dir)


def test_the_page_names_the_unit_and_nothing_that_the_records_decide(
    run_dir: Path,
) -> None:
    """It said "is protected less" below "not covered"."""
    before = page_of(run_dir)
    assert "One row is assumed to be one person." in before
    (run_dir / "schema.toml").write_text(SCHEMA)
    cells = {"age": {"clamped": [7, 100]}}
    before = page_of(run_dir)
    change(run_dir / "summary.json", notices=["<pid> repeats"], changed_cells=cells)
    assert page_of(run_dir) == before  # the run's own page lists them
    text = (run_dir / "report.html").read_text()
    for part in ("&lt;pid&gt; repeats", "age: 7 of 100 cells are clamped"):
        assert part in text
    parts = page.templates().get_template("parts.html").make_module({"sections": []})
    claim = {"relation": "replace all rows of a person"}
    schema = {"person": "pid", "rows_per_person": 2}
    text = parts.protected(claim, "person", schema)
    assert "with one value of column pid are one person's, of whom 2 at" in text
    assert "One row is assumed" not in text


def test_rows_are_those_that_are_kept_of_persons(run_dir: Path) -> None:
    """A page counted 1298 rows of a table that had more."""
    prove(run_dir, relation="replace all rows of a person (at most 2) of a client")
    change(run_dir / "config.json", public_test=False, secret_noise=True)
    text = page_of(run_dir)
    rows = json.loads((run_dir / "config.json").read_text())["num_train_examples"]
    assert f"“{rows} of the rows of digits that are kept trained a model; " in text
    assert re.search(r"of the \d+ rows that are kept \(", text)
    assert "Rows of a person that are not kept train nothing" in text
    prove(run_dir, relation="replace one record of a client")
    assert "kept" not in page_of(run_dir).split('<section id="details"')[0]


def test_a_table_without_sites_has_no_server(run_dir: Path) -> None:
    """One hospital's own run was against "the server, which sees every upload"."""
    assert "the server, which sees every upload" in page_of(run_dir)
    summary = json.loads((run_dir / "summary.json").read_text())
    claims = [row for row in summary["guarantees"] if row["copies"] == 1]
    alone = {"guarantees": claims, "by_client": {"uploads": [3]}}
    change(run_dir / "summary.json", **alone)
    text = page_of(run_dir)
    assert "Against whoever receives the model, at the end or after any round:" in text
    front = text.split("<main")[1].split('<section id="details"')[0]
    assert not re.search("server|[Cc]lients", front), front
    assert "Against whoever receives the model" in headline.filled(
        "privacy", summary | alone
    )


def test_scores_of_public_rows_may_stand_on_it(run_dir: Path) -> None:
    change(run_dir / "summary.json", test_scores=SCORES)
    change(run_dir / "config.json", public_test=False)
    assert "0.871" not in page_of(run_dir)
    change(run_dir / "config.json", public_test=True)
    scored = "AUC 0.916 (95 %: 0.822 to 0.947), of guessing 0.5. Accuracy on "
    assert scored in page_of(run_dir)


def test_a_run_that_goes_on_has_no_such_page(run_dir: Path) -> None:
    text = report.write_run_report(run_dir).read_text()
    assert "protection.html beside it may be published" in text
    (run_dir / "summary.json").unlink()
    assert "protection.html" not in report.write_run_report(run_dir).read_text()
    assert not (run_dir / "protection.html").exists()


@pytest.mark.parametrize(
    ("relation", "unit"),
    [
        ("replace one record of a client", "row"),
        ("replace all records of a client (all rows of a person among them)", "client"),
        ("add or remove a client (its update against zero)", "client"),
        ("leave all rows of a person out of its batches", "person"),
    ],
)
def test_a_risk_is_that_of_the_claims_unit(relation: str, unit: str) -> None:
    """6.06 of 100 are 61 of 1,000, rounded upwards."""
    claim = {"relation": relation, "right": 74, "risk": {"recognised": 0.0606}}
    guess, known = (headline.filled(name, claim) for name in ("guess", "recognised"))
    several, one_row = unit != "row", f"but one {unit}"
    assert f"{one_row}'s rows guesses" * several in guess
    assert several or f"{one_row} guesses, at even odds, which of two" in guess
    assert ("whose rows" in known) == several and "At most 74 of 100" in guess
    assert f"1,000 {unit}s" in known and "at most 61 are" in known
    replaced = relation.startswith("replace")
    assert ("which of two contents" in guess) == replaced
    assert ("have the other are" in known) == replaced
