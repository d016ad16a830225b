"""Several processes on loopback: the bytes of one, and all end when one is gone."""

import json
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
from commands import (
    ROOT,
    SMALL_RUN,
    Ended,
    assert_same_bytes,
    environment,
    start,
    succeeds,
    typed,
)
from stores import digits_store

SETTINGS = (
    *SMALL_RUN,
    "--num_clients=7",
    "--cohort_size=3",
    "--rounds_per_call=2",
    "--checkpoint_every=2",
    "--noreport",
)
LONG = "--num_rounds=100000"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def train(folder: pathlib.Path, *more: str) -> tuple[str, ...]:
    return ("experiments.train", *SETTINGS, f"--output_dir={folder}", *more)


def start_processes(
    num_processes: int, *arguments: str, own: dict[int, str] | None = None
) -> list[subprocess.Popen[str]]:
    """The same command in every process; `own` adds an argument to some."""
    meeting = f"--coordinator_address=127.0.0.1:{free_port()}"
    return [
        start(
            *arguments,
            meeting,
            f"--num_processes={num_processes}",
            f"--process_id={index}",
            *([own[index]] if own and index in own else []),
        )
        for index in range(num_processes)
    ]


def ends(processes: list[subprocess.Popen[str]], *, seconds: float) -> list[Ended]:
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


def together(
    num_processes: int, *arguments: str, own: dict[int, str] | None = None
) -> list[Ended]:
    return ends(start_processes(num_processes, *arguments, own=own), seconds=300)


def said(ended: Ended) -> list[str]:
    """Standard output without what gloo prints there."""
    return [line for line in ended.stdout.splitlines() if "[Gloo]" not in line]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The run of one process, six rounds."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    succeeds(*train(folder, "--num_rounds=6"))
    return folder


def checkpoint_appears(
    folder: pathlib.Path, processes: list[subprocess.Popen[str]], number: int = 4
) -> None:
    """Waits until so many rounds or more are saved."""
    deadline = time.monotonic() + 200
    while newest_checkpoint(folder) < number:
        assert all(process.poll() is None for process in processes)
        assert time.monotonic() < deadline
        time.sleep(0.05)


def newest_checkpoint(folder: pathlib.Path) -> int:
    names = [path.name for path in (folder / "checkpoints").glob("*")]
    return max((int(name) for name in names if name.isdigit()), default=0)


def test_two_processes_write_the_bytes_of_one_and_the_first_alone_prints(
    alone: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "run"
    first, second = together(2, *train(folder, "--num_rounds=6"))
    assert first.status == second.status == 0, (first.stderr, second.stderr)
    assert_same_bytes(folder, alone)
    sha = json.loads((alone / "summary.json").read_text())["params_sha256"]
    assert f"params_sha256: {sha}" in said(first)
    assert said(second) == []


def test_a_process_with_another_setting_ends_all_before_anything_is_written(
    tmp_path: pathlib.Path,
) -> None:
    first, second = together(
        2, *train(tmp_path / "run", "--num_rounds=6"), own={1: "--seed=3"}
    )
    assert (first.status, second.status) == (2, 2)
    assert "process 1 was started otherwise than process 0" in first.stderr
    assert "seed is 3 and is 0 there" in second.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_two_processes_read_a_store_and_write_the_bytes_of_one(
    tmp_path: pathlib.Path,
) -> None:
    """Each process reads the whole cohort."""
    digits_store(tmp_path / "store")
    line = (
        "experiments.train",
        "--dataset=store",
        f"--data_dir={tmp_path / 'store'}",
        "--num_clients=10",
        "--model=mlp",
        "--cohort_size=3",
        "--batch_size=5",
        "--local_epochs=1",
        "--checkpoint_every=2",
        "--noreport",
        "--num_rounds=6",
    )
    ended = succeeds(*line, f"--output_dir={tmp_path / 'alone'}")
    for ended in together(2, *line, f"--output_dir={tmp_path / 'run'}"):
        assert ended.status == 0, ended.stderr
    assert_same_bytes(tmp_path / "run", tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_the_others_within_a_minute_and_the_run_resumes(
    victim: int, tmp_path: pathlib.Path
) -> None:
    """Two processes, one killed; then three go on, then one, to the bytes of one."""
    folder, rounds = tmp_path / "run", "--num_rounds=60"
    processes = start_processes(2, *train(folder, rounds))
    checkpoint_appears(folder, processes)
    processes[victim].kill()
    ended = ends(processes, seconds=60)
    survivor = ended[1 - victim]
    assert survivor.status not in (0, -signal.SIGKILL)
    assert (
        "another process stopped" in survivor.stderr
        or "another task died" in survivor.stderr
    )
    assert not (folder / "summary.json").exists()

    before = newest_checkpoint(folder)
    processes = start_processes(3, *train(folder, rounds), "--resume")
    checkpoint_appears(folder, processes, before + 1)
    processes[2].kill()
    assert all(end.status != 0 for end in ends(processes, seconds=60))

    succeeds(*train(folder, rounds), "--resume")
    succeeds(*train(tmp_path / "whole", rounds))
    assert_same_bytes(folder, tmp_path / "whole")


@pytest.mark.slow
def test_a_process_that_hangs_ends_the_others_within_a_minute(
    tmp_path: pathlib.Path,
) -> None:
    processes = start_processes(2, *train(tmp_path / "run", LONG))
    checkpoint_appears(tmp_path / "run", processes)
    processes[1].send_signal(signal.SIGSTOP)
    try:
        (ended,) = ends(processes[:1], seconds=60)
    finally:
        processes[1].kill()
        processes[1].communicate()
    assert ended.status != 0
    assert "another task died" in ended.stderr or "another process" in ended.stderr


@pytest.mark.slow
def test_a_refused_folder_is_told_by_every_process(alone: pathlib.Path) -> None:
    for ended in together(2, *train(alone, "--num_rounds=6")):
        assert ended.status == 2
        assert "already holds a run" in ended.stderr


@pytest.mark.slow
def test_a_sweep_over_processes_on_both_axes_writes_the_bytes_of_one(
    tmp_path: pathlib.Path,
) -> None:
    """Cells dealt over two of the four processes: no process holds every cell."""

    def sweep(folder: pathlib.Path) -> tuple[str, ...]:
        cells = ("--mechanisms=fedsva", "--epsilons=.2,.5", "--seeds=0", "--resume")
        return (
            "experiments.sweep",
            *SETTINGS,
            *cells,
            "--num_rounds=4",
            f"--output_dir={folder}",
        )

    succeeds(*sweep(tmp_path / "one"))
    for turn in range(2):  # the second time from the checkpoint
        ended = together(4, *sweep(tmp_path / "four"), "--sweep_devices=2")
        assert [end.status for end in ended] == [0] * 4, (turn, ended)
    names = ("config.json", "results.jsonl", "cells.json", "table.md")
    assert_same_bytes(tmp_path / "one", tmp_path / "four", names)


SLURM = {
    "SLURM_JOB_ID": "{port}",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "{index}",
    "SLURM_LOCALID": "{index}",
}
OPEN_MPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://127.0.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_RANK": "{index}",
    "OMPI_COMM_WORLD_LOCAL_RANK": "{index}",
}


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [SLURM, OPEN_MPI], ids=["slurm", "open_mpi"])
def test_distributed_reads_the_launchers_variables(
    cluster: dict[str, str], alone: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The variables that srun and mpirun set, set by hand: no cluster is here."""
    folder, port = tmp_path / "run", free_port()
    arguments = train(folder, "--num_rounds=6", "--distributed")
    processes = []
    for index in range(2):
        variables = {k: v.format(port=port, index=index) for k, v in cluster.items()}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=ROOT,
                env=environment() | variables | {"JAX_COORDINATOR_PORT": str(port)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ended = ends(processes, seconds=300)
    assert [end.status for end in ended] == [0, 0], ended
    assert_same_bytes(folder, alone)


def test_distributed_without_a_cluster_names_the_flags(tmp_path: pathlib.Path) -> None:
    ended = typed(*train(tmp_path / "run", "--distributed"))
    assert ended.status == 2
    assert ended.stderr.startswith("error: the processes could not meet")
    assert "coordinator_address" in ended.stderr
    assert not (tmp_path / "run").exists()
