"""Processes that are killed, start at once, or lack memory."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import saved_work
from commands import assert_same_bytes
from forks import forks
from saved_work import check_client, check_run, client_of

CHANGES = "openat,write,ftruncate,truncate,fsync,rename,mkdir,unlink,rmdir"
SLOW = pytest.mark.slow


def run(
    work: str,
    folder: Path,
    *tracing: str,
    count: int = 1,
    spare: int | None = None,
    seconds: float | None = None,
) -> list[int | None]:
    """The exit statuses of processes; with `tracing`, of one below strace.

    After so many `seconds` the first is killed, unless it has ended.
    """
    asked = {"target": saved_work.do, "args": (work, folder, spare)}
    processes = [forks().Process(**asked) for _ in range(count)]
    for process in processes:
        process.start()
        state = Path(f"/proc/{process.pid}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)  # until it has stopped
    strace = None
    if tracing:
        line = ["strace", "-f", *tracing, "-p", str(processes[0].pid)]
        strace = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        assert strace.stderr is not None
        assert "attached" in strace.stderr.readline()
    for process in processes:
        os.kill(process.pid, signal.SIGCONT)
    if seconds is not None:
        time.sleep(seconds)
        processes[0].kill()
    if strace is not None:
        strace.communicate(timeout=300)
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def reported(folder: Path) -> int:
    """What was saved last; -1 for nothing."""
    file = folder / "reported"
    return int(file.read_text().split()[-1]) if file.exists() else -1


def killed(work: str, folder: Path, number: int | None) -> Iterator:
    """Folders of a process that was killed at a call; of so many calls, or of all."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    whole = folder / "whole"
    whole.mkdir()
    assert run(work, whole) == [0]  # compiles, and shows which paths there are
    names = [str(one.relative_to(whole)) for one in whole.rglob("*")]
    names = [name for name in names if name != "reported"]

    def paths(place: Path) -> list[str]:
        every = [place / name for name in names]
        every += [one.with_name(one.name + ".tmp") for one in every] + [place]
        every += [one.with_name(".lock") for one in every]
        every += [one.parent / str(n) for one in every for n in (1, 2, 3)]
        return [word for one in dict.fromkeys(every) for word in ("-P", str(one))]

    log = folder / "calls"
    tracing = ("-o", str(log), "-e", f"trace={CHANGES}")
    counted = folder / "counted"
    counted.mkdir()
    assert run(work, counted, *tracing, *paths(counted)) == [0]
    calls = Counter(re.findall(r"(?m)^\d+ +(\w+)\(", log.read_text()))
    assert sum(calls.values()) > 10
    places = [(name, n) for name in calls for n in range(1, calls[name] + 1)]
    step = 1 if number is None else max(1, len(places) // number)
    died = 0
    for name, n in places[::step]:
        place = folder / f"{name} {n}"
        place.mkdir()
        inject = ("-e", f"inject={name}:signal=KILL:when={n}")
        died += run(work, place, *tracing, *inject, *paths(place)) == [-9]
        yield place
        shutil.rmtree(place)
    assert died >= 0.9 * len(places[::step])


TIMES = pytest.mark.parametrize("number", [2, pytest.param(None, marks=SLOW)])


@TIMES
def test_a_folder_whose_writer_was_killed_at_a_system_call_goes_on(
    number: int | None, tmp_path: Path
) -> None:
    for place in killed("run", tmp_path, number):
        check_run(place, reported(place))


@TIMES
def test_no_killed_client_sent_an_upload_that_its_ledger_did_not_count(
    number: int | None, tmp_path: Path
) -> None:
    for place in killed("client", tmp_path, number):
        check_client(place, reported(place))


@SLOW
def test_a_client_killed_at_random_moments_has_counted_all_that_it_sent(
    tmp_path: Path,
) -> None:
    rng, died, begun = np.random.default_rng(0), 0, time.monotonic()
    assert run("busy client", tmp_path) == [0]
    whole = time.monotonic() - begun
    for number in range(500):
        place = tmp_path / str(number)
        place.mkdir()
        if run("busy client", place, seconds=rng.uniform(0, whole)) == [0]:
            whole *= 0.9  # it had ended
            continue
        check_client(place, reported(place))
        died += 1
        if died == 50:
            break
    assert died == 50


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=SLOW)])
def test_two_processes_of_one_client_have_one_budget(
    times: int, tmp_path: Path
) -> None:
    """Each asks for all five rounds; every round is answered by one of them."""
    for number in range(times):
        place = tmp_path / str(number)
        place.mkdir()
        client_of(place, num_rounds=5).begin(30)
        assert run("one of two", place, count=2) == [0, 0]
        rounds = (place / "reported").read_text().split()
        assert len(set(rounds)) == len(rounds) > 0
        assert client_of(place).read().sums["uploads"] == [len(rounds)]


@SLOW
def test_a_run_killed_at_any_write_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    for place in killed("training", tmp_path, None):
        assert run("training", place) == [0]
        assert_same_bytes(place / "run", tmp_path / "whole" / "run")


@pytest.mark.parametrize("times", [5, pytest.param(200, marks=SLOW)])
def test_of_two_processes_on_one_folder_one_writes_and_the_other_says_who(
    times: int, tmp_path: Path
) -> None:
    for number in range(times):
        folder = tmp_path / str(number)
        folder.mkdir()
        both = run("run", folder, count=2)
        assert set(both) <= {0, 3} and 0 in both, both
        check_run(folder, 4)


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=SLOW)])
def test_what_was_saved_is_there_after_memory_was_exhausted(
    step: int, tmp_path: Path
) -> None:
    """While it saves, and then while it loads; 1 MiB of arrays takes 8 MiB."""
    ended = Counter[int]()
    for spare in range(0, 72, step):
        folder = tmp_path / str(spare)
        folder.mkdir()
        for _ in ("saving", "loading"):
            ended.update(run("large run", folder, spare=spare * 2**20))
        check_run(folder, reported(folder), size=2**20)
    assert set(ended) == {0, 4} and ended[4] >= 2, ended
