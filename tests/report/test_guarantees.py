"""Claims on pages: merged where equal, with assumptions by who sees to them."""

import json
import re
from pathlib import Path

import pytest
from dp_accounting.gaussian_mechanism import get_sigma_gaussian
from page_parts import guarantee_table
from scipy.stats import norm
from small_folders import change

from fedsvp_jax import report
from fedsvp_jax.report import guarantees, headline, read

pytestmark = pytest.mark.hole
ROW = {
    "adversary": "server",
    "relation": "leave one record of a client out",
    "method": "pld",
    "epsilon": 3.0,
    "delta": 1e-5,
    "status": "proved",
    "copies": 1,
    "assumptions": "sees every upload; equal weights",
}


def test_assumptions_are_grouped_by_who_sees_to_them() -> None:
    """13 stood in one list without order."""
    texts = [
        "noise is counted as real numbers, without float32's gaps and rounding",
        "secure aggregation shows the sum of a cohort alone",
        "equal weights",
        "of a plugin",
        "nominal, because the ids were read",
    ]
    groups = guarantees.by_group(texts)
    heads = [head for head, pairs in groups.items() for _ in pairs]
    assert heads == [
        "Why it is not proved",
        "Whoever runs the training must see to it",
        "The program sees to it",
        "The proof takes for granted",
        "The proof takes for granted",
    ]
    shares = guarantees.by_group(
        ["every one of its clients adds its share of the noise"]
    )
    assert shares["Whoever runs the training must see to it"]  # at sites of others
    pairs = [pair for pairs in groups.values() for pair in pairs]
    assert {text for _, text in pairs} == {*texts}
    assert pairs[-1] == ("Of a plugin.", "of a plugin")
    assert pairs[1][0].startswith("A protocol for secure summation runs")


def test_every_assumption_of_the_routes_has_a_plain_sentence(run_dir: Path) -> None:
    rows = read.read_run(run_dir).summary["guarantees"]
    texts = {text for row in rows for text in row["assumptions"].split("; ")}
    for sentence, text in guarantees.by_group(texts)["The proof takes for granted"]:
        assert sentence.lower() != f"{text.lower()}.", text


def test_equal_claims_share_a_row_and_a_bound_of_no_use_says_so() -> None:
    """The server was "proved" at 34 in summary.json and "protects nothing" here."""
    other = {"adversary": "outside observer of the final model"}
    broken = "sees every upload, which secure aggregation is to hide, so that"
    useless = ROW | {"epsilon": 34.36, "right": 100, "assumptions": broken}
    table = guarantee_table([useless, ROW, ROW | other])
    rows = re.findall(r"<tr>.*?</tr>", table)[1:]
    assert (
        len(rows) == 2
        and "NO PROTECTION is promised (this ε is proved)</td>" in rows[0]
    )
    assert "if the secure summation is broken" in rows[0]
    both = "the server, which sees every upload; whoever sees the published model"
    assert both in rows[1] and "proved</td>" in rows[1]


def test_a_summary_without_its_status_is_an_error_of_one_sentence(
    run_dir: Path,
) -> None:
    """It ended in jinja2's UndefinedError."""
    summary = json.loads((run_dir / "summary.json").read_text())
    del summary["status"]
    (run_dir / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(ValueError, match=r"summary.json has no field 'status'"):
        report.write_run_report(run_dir)


def test_a_promise_by_pld_has_no_looser_curve_beside_it(run_dir: Path) -> None:
    """Beside ε = 3 a curve ended at 3.25."""
    assert 'id="plot-epsilon"' in report.write_run_report(run_dir).read_text()
    change(run_dir / "config.json", total_epsilon=3.0, total_accounting="pld")
    assert 'id="plot-epsilon"' not in report.write_run_report(run_dir).read_text()


def test_a_sweep_says_why_it_is_nominal(sweep_dir: Path) -> None:
    text = report.write_sweep_report(sweep_dir).read_text()
    assert text.count("<p>Nominal, since it is granted, not proved: that 2C/|D|") == 1
    assert "unlike claims" not in text
    rows = [{"against": against} for against in ("server", "–", "observer")]
    assert "unlike claims" in headline.filled("unlike", rows)
    assert not headline.filled("unlike", rows[:2])


def test_equal_rows_of_the_epsilon_page_are_one(sweep_dir: Path) -> None:
    report.write_sweep_report(sweep_dir)
    text = (sweep_dir / "epsilon.html").read_text()
    rows = re.findall(r"<tr>\n?<td.*?</tr>", text)
    assert rows and len(rows) == len({*rows})


def test_promises_of_several_accountings_are_one_of_the_weakest() -> None:
    """A log from before noise in whole numbers was counted by PLD is zCDP alone."""
    terms = {"total_epsilon": 3.0, "target_delta": 1e-5, "adversary": "server"}
    terms |= {"release_epsilon": 0.0, "relation": "R", "server_epsilon": None}
    terms |= {"status": "proved", "assumptions": "equal weights"}
    exact, loose = (terms | {"total_accounting": name} for name in ("pld", "rdp"))

    def right(*budgets: dict[str, object]) -> float:
        risk = guarantees.promised(budgets[0], "proved", budgets)["risk"]["server"]
        assert risk["exact"] == (loose not in budgets)
        return float(risk["right_of_100"])

    of_one = 100 * norm.cdf(1 / get_sigma_gaussian(3.0, 1e-5) / 2)
    assert right(exact) == pytest.approx(of_one)
    of_two = 100 * norm.cdf(2**0.5 / get_sigma_gaussian(3.0, 1e-5) / 2)
    assert right(exact, exact) == pytest.approx(of_two)
    assert right(exact) < right(loose) < right(exact, loose) < 85
    assert right(exact, loose) == right(loose, exact) > right(exact, exact)
    released = exact | {"release_epsilon": 0.5}
    assert not guarantees.promised(exact, "proved", [exact, released])["risk"]
