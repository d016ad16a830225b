"""Several processes on loopback: the bytes of one, and all end when one is gone."""

import json
import pathlib
import signal
import socket
import subprocess
import time

import pytest
from commands import Ended, assert_same_bytes, start, succeeds, typed
from stores import digits_store

from fedsvp_jax.run.checkpoint import Checkpointer

TRAIN = (
    *("experiments.train", "--model=mlp", "--batch_size=5", "--local_epochs=1"),
    *("--cohort_size=3", "--checkpoint_every=2", "--noreport"),
)
DIGITS = (
    *(*TRAIN, "--num_clients=7", "--num_hbc_clients=1", "--class_share=0.03"),
    "--rounds_per_call=2",
)
SIX = "--num_rounds=6"


def started(number: int, *arguments: str, **variables: str) -> list[subprocess.Popen]:
    """The same command so many times; {index} and {port} are each process's own."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = arguments
    if not variables:
        meeting = "--coordinator_address=127.0.0.1:{port}", "--process_id={index}"
        words = (*arguments, *meeting, f"--num_processes={number}")
    return [
        start(
            *(word.format(port=port, index=i) for word in words),
            **{name: v.format(port=port, index=i) for name, v in variables.items()},
        )
        for i in range(number)
    ]


def ends(processes: list[subprocess.Popen], seconds: float = 300) -> list[Ended]:
    """How they ended; all must within `seconds`."""
    deadline = time.monotonic() + seconds
    found = []
    try:
        for process in processes:
            left = max(0.1, deadline - time.monotonic())
            out, err = process.communicate(timeout=left)
            found.append(Ended(process.returncode, out, err))
    finally:
        for process in processes:
            process.kill()
    return found


def newest_checkpoint(folder: pathlib.Path) -> int:
    return max(Checkpointer(folder / "checkpoints", "run").rounds(), default=0)


def saved(folder: pathlib.Path, processes: list[subprocess.Popen], number: int) -> None:
    """Waits until so many rounds or more are."""
    deadline = time.monotonic() + 200
    while newest_checkpoint(folder) < number:
        assert all(process.poll() is None for process in processes)
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "data", ["digits", pytest.param("store", marks=pytest.mark.slow)]
)
def test_two_processes_write_the_bytes_of_one_and_the_first_alone_prints(
    data: str, tmp_path: pathlib.Path
) -> None:
    """Then both refuse the folder."""
    line = (*DIGITS, SIX)
    if data == "store":  # of which each process reads the whole cohort
        digits_store(tmp_path / "store")
        line = (*TRAIN, SIX, "--dataset=store", f"--data_dir={tmp_path / 'store'}")
        line = (*line, "--num_clients=10")
    succeeds(*line, f"--output_dir={tmp_path / 'alone'}")
    both = (*line, f"--output_dir={tmp_path / 'run'}")
    first, second = ends(started(2, *both))
    assert first.status == second.status == 0, (first.stderr, second.stderr)
    assert_same_bytes(tmp_path / "run", tmp_path / "alone")
    sha = json.loads((tmp_path / "run/summary.json").read_text())["params_sha256"]
    said, silent = (
        [text for text in ended.stdout.splitlines() if "[Gloo]" not in text]
        for ended in (first, second)
    )
    assert f"params_sha256: {sha}" in said and silent == []
    for ended in ends(started(2, *both)):
        assert ended.status == 2 and "already holds a run" in ended.stderr


def test_a_process_with_another_setting_ends_all_before_anything_is_written(
    tmp_path: pathlib.Path,
) -> None:
    line = (*DIGITS, SIX, f"--output_dir={tmp_path / 'run'}", "--seed={index}")
    first, second = ends(started(2, *line))
    assert (first.status, second.status) == (2, 2)
    assert "process 1 was started otherwise than process 0" in first.stderr
    assert "seed is 1 and is 0 there" in second.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "how"),
    [(0, signal.SIGKILL), (1, signal.SIGKILL), (1, signal.SIGSTOP)],
    ids=["the first", "another", "one that hangs"],
)
def test_a_process_that_is_gone_ends_the_others_within_a_minute_and_the_run_resumes(
    victim: int, how: signal.Signals, tmp_path: pathlib.Path
) -> None:
    """Two processes, of which one goes; then three go on, then one."""
    folder, line = tmp_path / "run", (*DIGITS, "--num_rounds=60")
    here = (*line, f"--output_dir={folder}")
    processes = started(2, *here)
    saved(folder, processes, 4)
    gone = processes.pop(victim)
    gone.send_signal(how)
    try:
        (survivor,) = ends(processes, seconds=60)
    finally:
        gone.kill()
        gone.communicate()
    assert survivor.status not in (0, -signal.SIGKILL)
    told = "another process stopped", "another task died"
    assert any(sentence in survivor.stderr for sentence in told)
    assert not (folder / "summary.json").exists()

    before = newest_checkpoint(folder)
    processes = started(3, *here, "--resume")
    saved(folder, processes, before + 1)
    processes[2].kill()
    assert all(end.status != 0 for end in ends(processes, seconds=60))

    succeeds(*here, "--resume")
    succeeds(*line, f"--output_dir={tmp_path / 'whole'}")
    assert_same_bytes(folder, tmp_path / "whole")


@pytest.mark.slow
def test_a_sweep_over_processes_on_both_axes_writes_the_bytes_of_one(
    tmp_path: pathlib.Path,
) -> None:
    """Cells dealt over two of the four processes: no process holds every cell."""
    cells = ("--mechanisms=fedsva", "--epsilons=.2,.5", "--seeds=0", "--resume")
    line = ("experiments.sweep", *DIGITS[1:], *cells, "--num_rounds=4")
    succeeds(*line, f"--output_dir={tmp_path / 'one'}")
    dealt = (*line, f"--output_dir={tmp_path / 'four'}", "--sweep_devices=2")
    for _ in range(2):  # the second time from the checkpoint
        assert [end.status for end in ends(started(4, *dealt))] == [0] * 4
    names = ("config.json", "results.jsonl", "cells.json", "table.md")
    assert_same_bytes(tmp_path / "one", tmp_path / "four", names)


SLURM = {
    "SLURM_JOB_ID": "{port}",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "{index}",
    "SLURM_LOCALID": "{index}",
}


@pytest.mark.slow
def test_distributed_reads_the_launchers_variables(tmp_path: pathlib.Path) -> None:
    """Those that srun sets, set by hand: no cluster is here. JAX knows the others."""
    line = (*DIGITS, SIX, "--distributed", f"--output_dir={tmp_path / 'run'}")
    ended = ends(started(2, *line, **SLURM, JAX_COORDINATOR_PORT="{port}"))
    assert [end.status for end in ended] == [0, 0], ended
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["rounds"] == 6


def test_distributed_without_a_cluster_names_the_flags(tmp_path: pathlib.Path) -> None:
    ended = typed(*TRAIN, SIX, "--distributed", f"--output_dir={tmp_path / 'run'}")
    assert ended.status == 2
    assert ended.stderr.startswith("error: the processes could not meet")
    assert "coordinator_address" in ended.stderr
