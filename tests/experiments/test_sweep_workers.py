"""A sweep in several processes: the bytes of one, also when workers are killed."""

import os
import pathlib
import signal
import time
from collections.abc import Callable

import pytest
from commands import SMALL_RUN, assert_sentence, start, typed

from experiments import subcommands, sweep_workers

SWEEP = (
    "experiments.sweep",
    *SMALL_RUN,
    "--mechanisms=nbafl,fedsva",
    "--epsilons=.3,.7",
    "--seeds=0:2",
    "--num_rounds=30",
    "--noreport",
    "--checkpoint_every=5",
)
FILES = ("config.json", "results.jsonl", "cells.json", "table.md", "table.csv")


def contents(folder: pathlib.Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def workers_of(process: int) -> list[int]:
    """Of a running sweep, its child processes."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in children.read_text().split()]


def test_workers_start_from_any_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the package is installed there is no `experiments` to import."""
    asked: list[list[str]] = []

    class Asked:
        def __init__(self, line: list[str], folder: pathlib.Path) -> None:
            asked.append(line)

        def __getattr__(self, name: str) -> Callable[[], int]:
            return lambda: 1

    monkeypatch.setattr(sweep_workers, "_Worker", Asked)
    monkeypatch.setattr(sweep_workers.parts, "merge", lambda places, target: None)
    monkeypatch.setattr(subcommands, "__package__", "fedsvp_jax.experiments")
    out = tmp_path / "sweep"
    sweep_workers.run(out, 2, rounds=2, resume=False, progress=False)
    assert [line[2] for line in asked] == ["fedsvp_jax.experiments.sweep"] * 2


@pytest.mark.slow
def test_killed_workers_are_taken_up_again_and_write_the_bytes_of_one_process(
    tmp_path: pathlib.Path,
) -> None:
    alone, apart = tmp_path / "alone", tmp_path / "apart"
    ended = typed(*SWEEP, "--sweep_workers=1", f"--output_dir={alone}")
    assert ended.status == 0, ended.stderr
    killed = set()
    with start(*SWEEP, "--sweep_workers=2", f"--output_dir={apart}") as process:
        while process.poll() is None and len(killed) < 4:
            time.sleep(4)
            for worker in workers_of(process.pid)[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert len(killed) > 1
    assert contents(apart) == contents(alone)
    assert sorted(tmp_path.iterdir()) == [alone, apart]


def test_workers_beside_what_must_be_one_process_are_refused(
    tmp_path: pathlib.Path,
) -> None:
    ended = typed(
        *SWEEP, "--sweep_workers=2", "--part=1/2", f"--output_dir={tmp_path / 'x'}"
    )
    assert_sentence(ended, "sweep_workers must be 1 with part")
    assert list(tmp_path.iterdir()) == []
