"""Pages are self-contained, deterministic, escaped and small enough."""

import html
import html.parser
import json
import re
import shutil
from pathlib import Path

import jax
import jinja2
import pytest
from jinja2 import nodes
from small_folders import change, copy, page_data, write_rows
from small_runs import digits, read_rows, small

from experiments import messages
from fedsvp_jax import report, run
from fedsvp_jax.report import page, reports

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \"'&\u2028"


class Outline(html.parser.HTMLParser):
    """The elements that a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_page_is_one_file_that_fetches_nothing(
    run_dir: Path, sweep_dir: Path
) -> None:
    for path in (
        report.write_run_report(run_dir),
        report.write_sweep_report(sweep_dir),
        sweep_dir / "epsilon.html",
    ):
        assert path.stat().st_size < 2.2e6  # plotly.js alone is 4.8 MB
        outline = Outline(path.read_text())
        assert all("src" not in attributes for _, attributes in outline.tags)
        assert not [tag for tag, _ in outline.tags if tag in ("link", "iframe", "base")]
        policy = next(a["content"] for t, a in outline.tags if "http-equiv" in a)
        assert policy and policy.startswith("default-src 'none'")


def test_strings_from_flags_and_files_stay_strings(
    whole_run: Path, sweep_dir: Path, tmp_path: Path
) -> None:
    plain, folder = copy(whole_run, tmp_path / "a"), copy(whole_run, tmp_path / "b")
    outline = Outline(report.write_run_report(plain).read_text())
    change(
        folder / "config.json",
        dataset=EVIL,
        mechanism=EVIL,
        clipping=EVIL,
        versions={EVIL: EVIL},
    )
    summary = json.loads((folder / "summary.json").read_text())
    guarantees = [
        dict.fromkeys(row, EVIL) | {"epsilon": 1.0, "delta": 1e-5}
        for row in summary["guarantees"]
    ]
    change(folder / "summary.json", guarantees=guarantees, params_sha256=EVIL)
    text = report.write_run_report(folder).read_text()
    evil = Outline(text)
    assert "<img" not in text
    assert [t for t, _ in evil.tags if t == "script"] == ["script"] * 3
    assert {t for t, _ in evil.tags} <= {t for t, _ in outline.tags}
    assert page_data(text)["context"]["label"] == EVIL
    path = sweep_dir / "results.jsonl"
    path.write_text(path.read_text().replace('"fedsdp"', json.dumps(EVIL)))
    text = report.write_sweep_report(sweep_dir).read_text()
    assert [t for t, _ in Outline(text).tags if t == "script"] == ["script"] * 3
    columns = page_data(text)["tables"]["table"]
    assert EVIL in columns["mechanism"]  # a download keeps the name as it is


def test_a_page_shows_every_upload_results_hashes_and_the_command(
    run_dir: Path,
) -> None:
    text = report.write_run_report(run_dir).read_text()
    data, rows = page_data(text), read_rows(run_dir / "clients.jsonl")
    cells = data["cells"]
    assert cells["client"] == [row["client"] for row in rows]
    assert cells["noise_std"] == [float(f"{row['noise_std']:.6g}") for row in rows]
    assert (len(cells["shapley_values"]), len(cells["utilities"])) == (2, 4)
    assert data["context"]["private_attribute"] == 0
    summary = json.loads((run_dir / "summary.json").read_text())
    for part in (
        *("FedSVA on digits", f"{100 * summary['best_accuracy']:.2f}", "nominal"),
        *("2C/|D| bounds an upload", summary["params_sha256"], jax.__version__),
        "fedsvp train --dataset=digits",
    ):
        assert part in text
    nothing = {"risk_tolerance": float("nan"), "shapley_values": None, "delta": 0.0}
    noiseless = nothing | {"noise_std": 0.0, "epsilon": float("inf")}
    write_rows(run_dir / "clients.jsonl", [rows[0] | noiseless])
    cells = page._rounded(reports.upload_columns([rows[0] | noiseless, rows[1]]))
    assert cells["epsilon"][0] is None and cells["shapley_values"][0][0] is None
    text = report.write_run_report(run_dir).read_text()
    assert page_data(text)["cells"] == {}  # of one upload there is nothing to compare


@pytest.mark.parametrize("diverged", [False, True])
def test_an_unfinished_run_has_a_page_that_says_so_at_its_top(
    run_dir: Path, diverged: bool
) -> None:
    (run_dir / "summary.json").unlink()
    rows = read_rows(run_dir / "metrics.jsonl")[:4]
    write_rows(
        run_dir / "metrics.jsonl",
        [*rows[:-1], rows[-1] | {"model_finite": not diverged}],
    )
    text = report.write_run_report(run_dir).read_text()
    told = "diverged in round 4 of 6" if diverged else "this page shows 4 of 6 rounds"
    assert told in text and text.index(told) < text.index("best test accuracy")
    assert "no finite privacy guarantee" not in text
    best = 100 * max(row["test_accuracy"] or 0 for row in rows)
    assert f"{best:.1f}" in text
    other = shutil.copytree(run_dir, run_dir.with_name("other"))
    with pytest.raises(ValueError, match=r"cannot be compared: it has not"):
        report.write_compare_report([run_dir, other], run_dir.parent)


def test_noise_in_the_local_steps_is_not_shown_as_no_noise(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run.train(small(clipping="per_example"), folder, dataset=digits())
    text = report.write_run_report(folder).read_text()
    data = page_data(text)
    rows = read_rows(folder / "clients.jsonl")
    stds = [float(f"{row['step_noise_std']:.6g}") for row in rows]
    assert min(stds) > 0 and data["cells"]["step_noise_std"] == stds
    drawn = {plot["id"] for plot in data["plots"]}
    assert "step_noise_std" in drawn and not {"noise", "noise_std"} & drawn
    assert "mean σ per local step" in text


@pytest.mark.hole
def test_a_title_says_what_the_page_is_of(run_dir: Path, sweep_dir: Path) -> None:
    """All runs of a mechanism had one title."""
    titles = [
        re.search("<title>(.*?)</title>", path.read_text())[1]
        for path in (
            report.write_run_report(run_dir),
            run_dir / "protection.html",
            report.write_sweep_report(sweep_dir),
            sweep_dir / "epsilon.html",
            report.write_compare_report([run_dir, sweep_dir], run_dir.parent),
        )
    ]
    spent = json.loads((run_dir / "summary.json").read_text())["epsilon_spent"]["pld"]
    assert titles == [
        f"FedSVA on digits, nominal, ε of the run {spent:.4g}",
        f"How one row of digits is protected: FedSVA, ε = {spent:.4g}",
        "FedAvg, FedSDP, FedSVA on digits",
        "What an ε of FedSDP, FedSVA is worth: digits",
        "run, sweep compared",
    ]


@pytest.mark.hole
def test_the_page_of_a_run_says_where_its_noise_and_its_epsilons_come_from(
    run_dir: Path,
) -> None:
    """It said "seed 0" of noise from entropy, and 27 of a client in a run of ε = 3."""
    head = "</h1><p>model cnn, rounds 3, clients 21, cohort 5, seed 0</p>"
    seeded = report.write_run_report(run_dir).read_text()
    assert re.search(r"</h1><p>model .*, seed \d+</p>", seeded), head
    assert "ε is that of the run, which holds for each of them" in seeded
    spent = json.loads((run_dir / "summary.json").read_text())["epsilon_spent"]["pld"]
    by_client = re.findall(r'data-head="ε, at most">([^<]*)<', seeded)
    assert by_client and {*by_client} == {f"{spent:.4g}"}
    change(run_dir / "config.json", secret_noise=True)
    subtitle = report.write_run_report(run_dir).read_text().split("</h1>")[1][:200]
    assert "seed" not in subtitle and "noise from the system&#39;s entropy" in subtitle


def test_pages_name_the_nominal_epsilons(run_dir: Path, sweep_dir: Path) -> None:
    page = report.write_run_report(run_dir).read_text()
    assert re.search(r"Against the server, .* for replacing one record of a", page)
    assert ">nominal</td>" in report.write_sweep_report(sweep_dir).read_text()
    compared = report.write_compare_report([run_dir, sweep_dir], run_dir.parent)
    assert compared.read_text().count(">nominal</td>") == 5
    (sweep_dir / "cells.json").unlink()  # before a first mechanism has finished
    unfinished = report.write_sweep_report(sweep_dir).read_text()
    assert ">nominal</td>" in unfinished  # results.jsonl tells it of every round


def test_400_rounds_of_100_clients_stay_under_10_megabytes(run_dir: Path) -> None:
    """Ten uploads per round."""
    change(run_dir / "summary.json", by_client=None)  # whose clients are fewer
    for name, a_round in (("metrics.jsonl", 1), ("clients.jsonl", 10)):
        rows = read_rows(run_dir / name)
        write_rows(
            run_dir / name,
            (
                rows[n % len(rows)] | {"round": n // a_round + 1, "client": n * 7 % 100}
                for n in range(400 * a_round)
            ),
        )
    assert report.write_run_report(run_dir).stat().st_size < 10_000_000


def test_a_filter_of_a_template_is_one_function() -> None:
    """Of two modules that pages ask, the later one's function of a name would win."""
    folders = (Path(page.__file__).parent, Path(messages.__file__).parent)
    environment = messages._templates()
    named = {
        found.name
        for folder in folders
        for file in (folder / "templates").iterdir()
        for found in environment.parse(file.read_text()).find_all(nodes.Filter)
    }
    assert {"percent", "about", "printable", "round"} <= named
    assert all(callable(environment.filters.get(name)) for name in named)
    for name in named:
        functions = [vars(m)[name] for m in page._ASKED if name in vars(m)]
        assert len({*functions}) < 2, name
        assert not functions or name not in jinja2.Environment().filters
