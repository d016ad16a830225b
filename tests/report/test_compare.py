"""Several folders on one page: all curves, one table, what tells them apart."""

import json
from pathlib import Path

import pytest
from commands import succeeds
from small_folders import change, copy, page_data, write_rows
from small_runs import read_rows

from fedsvp_jax.report import curves, read, reports


@pytest.fixture
def folders(tmp_path: Path, whole_run: Path, sweep_dir: Path) -> list[Path]:
    first, second = (copy(whole_run, tmp_path / name) for name in ("first", "second"))
    change(second / "config.json", epsilon=0.4, dataset="<b>mine</b>")
    uploads = read_rows(second / "clients.jsonl")
    write_rows(second / "clients.jsonl", (row | {"epsilon": 0.4} for row in uploads))
    return [first, second, sweep_dir]


def test_curves_of_all_folders_share_their_axes(folders: list[Path]) -> None:
    assert len(read.read_all([folders[0], folders[0] / "."])) == 1
    plots = {p.id: p for p in curves.compare_curves(read.read_all(folders))}
    series = plots["accuracy"].series
    names = [curve.name for curve in series]
    assert names[:2] == ["first", "second"]
    assert all(name.startswith("sweep: ") for name in names[2:]) and len(names) == 7
    assert len({curve.look.color for curve in series}) == 3
    assert len({curve.look for curve in series}) == len(series)


def test_the_page_tells_results_and_differences(
    folders: list[Path], tmp_path: Path
) -> None:
    path = reports.write_compare_report(folders, tmp_path / "both")
    text = path.read_text()
    assert path == tmp_path / "both" / "compare.html"
    table = page_data(text)["tables"]["table"]
    assert table["folder"] == ["first", "second", *["sweep"] * 5]
    assert table["ε per upload at its own δ"][:3] == ["0.5", "0.4", "–"]
    summary = json.loads((folders[0] / "summary.json").read_text())
    last5 = f"{100 * summary['final5_accuracy']:.1f}"
    assert table["accuracy % (mean of the last 5 evaluations)"][0] == last5
    settings = text[text.index('id="settings"') :]
    assert ">epsilon</td>" in settings and ">num_rounds</td>" in settings
    assert "&lt;b&gt;mine&lt;/b&gt;" in settings and "<b>mine" not in settings


def test_runs_and_sweeps_are_rebuilt_together(run_dir: Path, sweep_dir: Path) -> None:
    """`experiments.report`, as typed."""
    folders = (str(run_dir), str(sweep_dir))
    done = succeeds("experiments.report", *folders)
    for path in (
        run_dir / "report.html",
        sweep_dir / "report.html",
        sweep_dir / "table.md",
        sweep_dir / "table.csv",
        sweep_dir / "table.tex",
        run_dir.parent / "compare.html",
    ):
        assert path.stat().st_size > 0
        assert str(path) in done.stdout
    assert "FedSVA" in done.stdout
