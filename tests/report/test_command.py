"""`python -m experiments.report`, as typed."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("plotly", reason="pages need the extra [report]")

ROOT = Path(__file__).parents[2]


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "experiments.report", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_runs_and_sweeps_are_rebuilt_together(run_dir: Path, sweep_dir: Path) -> None:
    done = command("--figure=svg", run_dir, sweep_dir)
    assert done.returncode == 0, done.stderr
    for path in (
        run_dir / "report.html",
        run_dir / "report.svg",
        sweep_dir / "report.html",
        sweep_dir / "table.md",
        sweep_dir / "table.csv",
        sweep_dir / "report.svg",
        run_dir.parent / "compare.html",
        run_dir.parent / "compare.svg",
    ):
        assert path.stat().st_size > 0
        assert str(path) in done.stdout
    assert "FedSVA" in done.stdout


def test_a_damaged_folder_is_one_line_and_an_error(run_dir: Path) -> None:
    (run_dir / "metrics.jsonl").write_text("{}\n")
    done = command(run_dir)
    assert done.returncode != 0
    assert done.stderr.strip().count("\n") == 0
    assert "metrics.jsonl row 1 has no field 'round'" in done.stderr
    assert not (run_dir / "report.html").exists()


def test_no_folder_is_an_error() -> None:
    done = command()
    assert done.returncode != 0
    assert "name at least one folder" in done.stderr
