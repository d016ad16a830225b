"""A sweep in several processes: the bytes of one, also when workers are killed."""

import os
import pathlib
import signal
import time

import pytest
from commands import SMALL_RUN, assert_sentence, start, typed

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
