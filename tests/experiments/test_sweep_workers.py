"""A sweep in several processes: the bytes of one, also when workers are killed."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from commands import (
    SMALL_RUN,
    assert_same_bytes,
    assert_sentence,
    program,
    start,
    typed,
)

from experiments import sweep_workers

SWEEP = (
    "experiments.sweep",
    *SMALL_RUN,
    "--mechanisms=nbafl,fedsva",
    "--epsilons=.3,.7",
    "--seeds=0:2",
    "--num_rounds=30",
    "--noreport",
    "--rounds_per_call=1",
    "--checkpoint_every=5",
)
ROWS = 8 * 30
FILES = ("config.json", "results.jsonl", "cells.json", "table.md", "table.csv")


def workers_of(process: int) -> list[int]:
    """Of a running sweep, its child processes."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in children.read_text().split()]


def test_workers_start_from_any_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the package is installed there is no `experiments` to import."""

    def asked(line: list[str], **_: object) -> None:
        raise ValueError(line[2])

    monkeypatch.setattr(subprocess, "Popen", asked)
    monkeypatch.setattr(sweep_workers, "__package__", "fedsvp_jax.experiments")
    with pytest.raises(ValueError, match=r"^fedsvp_jax\.experiments\.sweep$"):
        sweep_workers.run(tmp_path / "a", 2, resume=False)


def rows_of(folder: pathlib.Path) -> int:
    """What the workers of a sweep have written."""
    files = folder.with_name(f"{folder.name}.parts").glob("*/results.jsonl")
    return sum(file.read_bytes().count(b"\n") for file in files)


def wait_for_rows(process: subprocess.Popen[str], folder: pathlib.Path, n: int) -> None:
    while not workers_of(process.pid) or rows_of(folder) < n:
        assert process.poll() is None
        time.sleep(0.02)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The sweep in one process."""
    folder = tmp_path_factory.mktemp("alone") / "sweep"
    line = (*SWEEP, "--sweep_workers=1", f"--output_dir={folder}")
    ended = typed(*line, timeout=3000)
    assert ended.status == 0, ended.stderr
    return folder


@pytest.mark.slow
def test_a_sweep_whose_worker_is_killed_says_so_and_is_resumed_with_the_same_bytes(
    alone: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    apart = tmp_path / "apart"
    line = (*SWEEP, "--sweep_workers=2", f"--output_dir={apart}", "--resume")
    for number in range(2):
        with start(*line, "--noprogress") as process:
            wait_for_rows(process, apart, (1 + number) * ROWS // 4)
            os.kill(workers_of(process.pid)[number], signal.SIGKILL)
            _, errors = process.communicate()
        assert process.returncode == 2 and "a part of the sweep has failed" in errors
    ended = typed(*line, timeout=3000)
    assert ended.status == 0, ended.stderr
    assert_same_bytes(apart, alone, FILES)
    assert sorted(tmp_path.iterdir()) == [apart]


@pytest.mark.slow
def test_a_sweep_killed_at_ten_moments_is_resumed_with_the_same_bytes(
    alone: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """At last without its workers: the next is refused until these have ended."""
    apart = tmp_path / "apart"
    flags = ("--sweep_workers=2", f"--output_dir={apart}", "--resume", "--noprogress")
    line = (*SWEEP, *flags)
    for number in range(10):
        with start(*line) as process:
            wait_for_rows(process, apart, number * ROWS // 12)
            workers = workers_of(process.pid)
            process.kill()
            for worker in workers if number < 9 else []:
                os.kill(worker, signal.SIGKILL)
    while (ended := typed(*line, timeout=3000)).status:
        assert_sentence(ended, "is being written by")
    assert_same_bytes(apart, alone, FILES)
    assert sorted(tmp_path.iterdir()) == [apart]


TWO_DEVICES = """
import runpy, sys
import jax
jax.config.update("jax_num_cpu_devices", 2)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_a_sweep_on_two_devices_has_the_bits_of_one(tmp_path: pathlib.Path) -> None:
    line = (
        "experiments.sweep",
        "--dataset=digits",
        "--mechanisms=fedsva",
        "--epsilons=.2,.3,.4,.5",
        "--seeds=0:6",
        "--num_rounds=60",
        "--noreport",
    )
    alone, dealt = tmp_path / "alone", tmp_path / "dealt"
    one = (*line, "--sweep_workers=1", f"--output_dir={alone}")
    assert typed(*one, timeout=3000).status == 0
    two = (*line, "--sweep_devices=2", f"--output_dir={dealt}")
    assert program(TWO_DEVICES, *two, timeout=3000).status == 0
    one_cells, two_cells = (
        [row["params_sha256"] for row in json.loads((f / "cells.json").read_text())]
        for f in (alone, dealt)
    )
    assert len(set(one_cells)) == 24
    assert one_cells == two_cells
