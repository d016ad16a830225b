"""Folders of real small runs and sweeps: made once a session, copied for each test."""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from small_runs import digits, small

from fedsvp_jax import run

Row = dict[str, Any]
SWEEP = run.sweep.SweepPlan(("none", "fedsdp", "fedsva"), (0.1, 0.5), (0, 1))


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def change(path: Path, **fields: Any) -> None:
    """Overwrites fields of a JSON file's object."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def copy(folder: Path, place: Path) -> Path:
    return shutil.copytree(folder, place, ignore=lambda *_: {"checkpoints"})


def page_data(text: str) -> Any:
    """What the scripts of a report's page read."""
    found = re.search('type="application/json" id="data">(.*?)</script>', text)
    assert found
    return json.loads(found[1])


def _made_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]
) -> Path:
    """A folder that the worker that asks first makes for all workers of a session."""
    place = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # its own folder lies in the session's
        place = place.parent
    folder = place / name
    with open(place / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            make(place / f"{name}.unfinished")
            (place / f"{name}.unfinished").rename(folder)
    return folder


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FedSVA, 6 rounds of 3 uploads, every second round evaluated."""
    config = small(num_rounds=6, eval_every=2)
    return _made_once(
        tmp_path_factory,
        "whole_run",
        lambda folder: run.train(config, folder, dataset=digits()),
    )


@pytest.fixture(scope="session")
def whole_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three mechanisms, two ε, two seeds, 4 rounds."""
    return _made_once(
        tmp_path_factory,
        "whole_sweep",
        lambda folder: run.sweep.sweep(
            small(num_rounds=4), SWEEP, folder, dataset=digits()
        ),
    )


@pytest.fixture
def run_dir(whole_run: Path, tmp_path: Path) -> Path:
    return copy(whole_run, tmp_path / "run")


@pytest.fixture
def sweep_dir(whole_sweep: Path, tmp_path: Path) -> Path:
    return copy(whole_sweep, tmp_path / "sweep")
