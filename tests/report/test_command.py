"""`python -m experiments.report`, as typed."""

from pathlib import Path

import pytest
from commands import command

pytestmark = pytest.mark.across("the command that makes pages")

pytest.importorskip("plotly", reason="pages need the extra [report]")


def test_runs_and_sweeps_are_rebuilt_together(run_dir: Path, sweep_dir: Path) -> None:
    folders = (str(run_dir), str(sweep_dir))
    done = command("experiments.report", "--figure=svg", *folders)
    assert done.status == 0, done.stderr
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
