"""Claims on pages: merged where equal, with assumptions by who sees to them."""

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from dp_accounting.gaussian_mechanism import get_sigma_gaussian
from page_parts import guarantee_table
from scipy.optimize import brentq
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


def mu_of(epsilon: float, delta: float) -> float:
    """μ of the Gaussian whose δ(ε) is this one (Dong and others 2022, Corollary 1)."""

    def spare(mu: float) -> float:
        tail = math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        return float(norm.cdf(mu / 2 - epsilon / mu) - tail) - delta

    return float(brentq(spare, 1e-3, 40))


def of_sum(clients: int, colluders: int, epsilon: float, run: str) -> dict[str, Any]:
    """A site's promise of a sum, as its log states it."""
    own = 100.0 * epsilon  # of the server's view: not compared here
    return {
        "total_epsilon": epsilon,
        "target_delta": 1e-5,
        "total_accounting": "pld",
        "release_epsilon": 0.0,
        "relation": "replace one record of a client",
        "server_epsilon": own,
        "status": "proved",
        "run_id": run,
        "adversary": f"honest-but-curious clients, {colluders} colluding",
        "assumptions": "secure aggregation shows the sum of a cohort alone; "
        f"adds its share of the noise, 1/√({clients} - {colluders}); clients "
        f"that drop out and those that collude are together at most {colluders}",
    }


@pytest.mark.parametrize(
    ("clients", "numbers"), [(20, (2, 18)), (3, (1, 2)), (9, (0, 4))]
)
def test_logs_add_up_against_the_fewest_colluders(
    clients: int, numbers: tuple[int, int]
) -> None:
    """ "Even if 18 clients … 58 of 100" stood on a page that counted a log of 2: 67."""
    for own, epsilon in itertools.product(numbers, (1.0, 3.0)):
        logs = [of_sum(clients, h, epsilon, f"of {h}") for h in numbers]
        promise = next(log for log in logs if str(own) in log["adversary"].split())
        summary = guarantees.promised(promise, "proved", logs)
        claim = guarantees.strongest([summary])[0]
        text = headline.filled("claim", claim)
        said = re.findall(r"helped by (?:up to )?(\d+|one) client", text)
        named = int(said[0].replace("one", "1"))
        assert f"together at most {named}" in claim["assumptions"]
        assert claim["assumptions"].count("together at most") == 1
        # A share of K - h parts has all the noise for h; h' know h' shares of K.
        mu = mu_of(epsilon, 1e-5)
        moves = [mu * ((clients - h) / (clients - named)) ** 0.5 for h in numbers]
        right = 100 * norm.cdf(math.hypot(*moves) / 2)
        assert right <= claim["right"] <= 101 + right
        assert mu_of(claim["epsilon"], claim["delta"]) >= math.hypot(*moves)
        assert named == numbers[0] and claim["status"] == "proved"
        shown = headline.filled("all_budgets", [dict(log, log="l") for log in logs])
        assert "against the weakest adversary of these logs: the server" in shown
        shares = [f"share of the noise, 1/√({clients} - {h})" for h in numbers]
        assert f"adds its {shares[0]}, or adds its {shares[1]}" in claim["assumptions"]
        assert headline.filled("against", claim) in shown.replace(", and against", ";")
    with_nominal = [*logs, logs[0] | {"status": "nominal"}]
    assert guarantees.promised(promise, "proved", with_nominal)["status"] == "nominal"
    alike = guarantees.promised(promise, "proved", [logs[0], logs[0]])
    assert alike["assumptions"].endswith("take part in the same training")


def test_a_log_that_hides_uploads_and_one_of_a_sum_add_up() -> None:
    of_uploads = of_sum(20, 2, 1.0, "other") | {
        "adversary": "server",
        "server_epsilon": None,
        "assumptions": "nothing else leaves the client",
    }
    for logs in itertools.permutations([of_uploads, of_sum(20, 2, 1.0, "sum")]):
        summary = guarantees.promised(logs[0], "proved", logs)
        main, server = guarantees.strongest([summary])
        assert (main["epsilon"], server["epsilon"]) == (2.0, 101.0)
        assert (
            "sees sums alone (in a training without a secure sum, every upload), "
            in (headline.filled("against", main))
        )
        assert "together at most 2" in main["assumptions"]
        assert server["adversary"] == "server"


def test_of_runs_the_adversary_of_all_is_named() -> None:
    """ "Their ε add up: ε = 2 (proved)" named nobody, and one run held against 2."""

    def name(*rows: tuple[str, str]) -> str:
        claims = [{"adversary": who, "assumptions": rests} for who, rests in rows]
        names = {
            headline.filled("against", guarantees.shared(order))
            for order in itertools.permutations(claims)
        }
        assert len(names) == 1
        return names.pop()

    server = ("server", "sees every upload")
    observer = ("outside observer of the final model", "")
    curious = ("honest-but-curious client", "")
    sums = "secure aggregation shows the sum of a cohort alone"
    two, many, trusted = (
        (f"honest-but-curious clients, {h} colluding", rests)
        for h, rests in ((2, sums), (40, sums), (3, ""))
    )
    assert name(server, server) == "the server, which sees every upload"
    assert "helped by up to 2 clients that tell it all they know; up to 2 cl" in name(
        two, many
    )
    assert "every upload), helped by up to 2" in name(two, server)
    for weaker in (trusted, curious, observer):
        assert name(weaker, two, server) == "whoever sees the published model"


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
    # 19.8 of 1,000 were "at most" recognised, of Gaussians by which 20.7 are.
    several = [exact | {"total_epsilon": 0.2, "target_delta": 0.01}] * 3
    risk = guarantees.promised(
        loose, "proved", [loose | {"total_epsilon": 0.001}, *several]
    )["risk"]
    mu = 3**0.5 * mu_of(0.2, 0.01)
    assert risk["server"]["recognised"] > norm.cdf(mu - norm.isf(0.01))
    released = exact | {"release_epsilon": 0.5}
    assert not guarantees.promised(exact, "proved", [exact, released])["risk"]
