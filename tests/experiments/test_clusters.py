"""Sweeps in parts, as SLURM and Ray run them: the bytes of one process."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
from commands import ROOT, assert_same_bytes, environment, succeeds

from fedsvp_jax.run.parts import merge

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "sweeps.md").read_text()
(ARRAY,) = re.findall(r"^sbatch .*?'$", PAGE, re.DOTALL | re.MULTILINE)

FILES = ("config.json", "results.jsonl", "cells.json")
SWEEP = (
    "--dataset=digits",
    "--mechanisms=nbafl,fedsva",
    "--epsilons=.2,.5",
    "--seeds=0,1",
    "--num_rounds=10",
)


needs_slurm = pytest.mark.skipif(
    not shutil.which("sbatch") or bool(subprocess.run(["sinfo"]).returncode),
    reason="needs SLURM; examples/slurm/one_node.conf says how to start one",
)


def ran(*words: str, **variables: str) -> str:
    """The output of a command that must succeed within ten minutes."""
    ended = subprocess.run(
        words,
        cwd=ROOT,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, (ended.stdout, ended.stderr)
    return ended.stdout


def array(folder: pathlib.Path, *flags: str) -> str:
    """The page's command with these flags; the last mention of a flag counts."""
    line = ARRAY.replace("fedsvp ", f"{sys.executable} -m experiments.")
    return f"{line.replace('runs/array', str(folder))[:-1]} {' '.join(flags)}'"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The sweep in one process."""
    folder = tmp_path_factory.mktemp("alone") / "sweep"
    succeeds("experiments.sweep", *SWEEP, "--noreport", f"--output_dir={folder}")
    return folder


def test_a_killed_worker_of_an_array_is_started_again_and_runs_what_was_lost(
    tmp_path: pathlib.Path,
) -> None:
    """200 cells on four workers, of which one is killed, by the command for SLURM."""
    seeds = "--seeds=0:50"
    flags = (*SWEEP[:3], seeds, "--num_rounds=2", "--model=mlp", "--noreport")
    flags += ("--checkpoint_every=1", "--rounds_per_call=1")

    def worker(number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", f"exec {array(tmp_path, *flags).split(chr(39))[1]}"],
            cwd=ROOT,
            env=environment() | {"SLURM_ARRAY_TASK_ID": str(number)},
            stdout=subprocess.DEVNULL,
        )

    workers = [worker(number) for number in (1, 2, 3, 4)]
    rows = tmp_path / "part-2" / "results.jsonl"
    while not (rows.exists() and rows.stat().st_size):
        assert workers[1].poll() is None
        time.sleep(0.01)
    workers[1].kill()
    assert workers[1].wait() == -9
    assert not (tmp_path / "part-2" / "cells.json").exists()
    workers[1] = worker(2)
    assert [one.wait() for one in workers] == [0, 0, 0, 0]
    merge([tmp_path / f"part-{number}" for number in (1, 2, 3, 4)], tmp_path / "all")
    succeeds("experiments.sweep", *flags, f"--output_dir={tmp_path / 'alone'}")
    assert_same_bytes(tmp_path / "all", tmp_path / "alone", FILES)


@needs_slurm
def test_a_slurm_array_writes_the_sweep_of_one_process(
    alone: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    line = array(tmp_path / "array", *SWEEP, "--noreport")
    ran("sh", "-c", f"{line} --output={tmp_path}/%a.log")
    merge(sorted((tmp_path / "array").iterdir()), tmp_path / "all")
    assert_same_bytes(tmp_path / "all", alone, FILES)


@pytest.mark.skipif(
    not importlib.util.find_spec("ray"), reason="needs `pip install ray`"
)
def test_the_example_on_ray_writes_the_sweep_of_one_process(
    alone: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    packages = os.pathsep.join(path for path in sys.path if path)
    ran(
        sys.executable,
        "examples/ray_sweep.py",
        str(tmp_path),
        PYTHONPATH=packages,
        RAY_ADDRESS="local",
        RAY_USAGE_STATS_ENABLED="0",
    )
    assert_same_bytes(tmp_path / "all", alone, FILES)
