"""Folders of real small runs and sweeps: made once a session, copied for each test."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from small_runs import digits, small

from fedsvp_jax import run

Row = dict[str, Any]
SWEEP = run.sweep.SweepPlan(("none", "fedsdp", "fedsva"), (0.1, 0.5), (0, 1))


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def change(path: Path, **fields: Any) -> None:
    """Overwrites fields of a JSON file's object."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def copy(folder: Path, place: Path) -> Path:
    return shutil.copytree(folder, place, ignore=lambda *_: {"checkpoints"})


def lengthen(run_dir: Path, *, rounds: int, clients: int, cohort: int) -> None:
    """Repeats a run's rows until it has so many rounds, clients and uploads."""
    metrics = read_rows(run_dir / "metrics.jsonl")
    uploads = read_rows(run_dir / "clients.jsonl")
    numbers = range(rounds)
    write_rows(
        run_dir / "metrics.jsonl",
        (metrics[t % len(metrics)] | {"round": t + 1} for t in numbers),
    )
    write_rows(
        run_dir / "clients.jsonl",
        (
            uploads[(t * cohort + k) % len(uploads)]
            | {"round": t + 1, "client": (t * cohort + k) * 7 % clients}
            for t in numbers
            for k in range(cohort)
        ),
    )


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FedSVA, 6 rounds of 3 uploads, every second round evaluated."""
    folder = tmp_path_factory.mktemp("real") / "run"
    run.train(small(num_rounds=6, eval_every=2), folder, dataset=digits())
    return folder


@pytest.fixture(scope="session")
def whole_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three mechanisms, two ε, two seeds, 4 rounds."""
    folder = tmp_path_factory.mktemp("real") / "sweep"
    run.sweep.sweep(small(num_rounds=4), SWEEP, folder, dataset=digits())
    return folder


@pytest.fixture
def run_dir(whole_run: Path, tmp_path: Path) -> Path:
    return copy(whole_run, tmp_path / "run")


@pytest.fixture
def sweep_dir(whole_sweep: Path, tmp_path: Path) -> Path:
    return copy(whole_sweep, tmp_path / "sweep")
