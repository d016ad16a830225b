"""Processes that are killed, start at once, or lack memory."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import ROOT, assert_same_bytes, environment
from fault_rows import keep
from saved_work import check_client, check_run, client_of

CHANGES = "openat,write,ftruncate,truncate,fsync,rename,mkdir,unlink,rmdir"
SLOW = pytest.mark.slow


class Workers:
    """Processes of `saved_work`, which stop before they begin."""

    def __init__(self) -> None:
        helpers = ROOT / "tests" / "helpers"
        self.server = subprocess.Popen(
            [sys.executable, str(helpers / "saved_work.py")],
            env=environment() | {"PYTHONPATH": f"{ROOT}:{helpers}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        work: str,
        folder: Path,
        *tracing: str,
        count: int = 1,
        spare: int | None = None,
        seconds: float | None = None,
    ) -> list[int]:
        """The exit statuses; with `tracing`, of one process below strace.

        After so many `seconds` the first is killed, unless it has ended.
        """
        asked = {"work": work, "folder": str(folder), "count": count, "spare": spare}
        assert self.server.stdin is not None and self.server.stdout is not None
        print(json.dumps(asked), file=self.server.stdin, flush=True)
        children = json.loads(self.server.stdout.readline())
        strace = None
        if tracing:
            line = ["strace", "-f", *tracing, "-p", str(children[0])]
            strace = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
            assert strace.stderr is not None
            assert "attached" in strace.stderr.readline()
        for child in children:
            os.kill(child, signal.SIGCONT)
        if seconds is not None:
            time.sleep(seconds)
            with contextlib.suppress(ProcessLookupError):
                os.kill(children[0], signal.SIGKILL)
        if strace is not None:
            strace.communicate(timeout=300)
        return list(json.loads(self.server.stdout.readline()))


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.server.communicate()


def reported(folder: Path) -> int:
    """What was saved last; -1 for nothing."""
    file = folder / "reported"
    return int(file.read_text().split()[-1]) if file.exists() else -1


def killed(
    workers: Workers, work: str, folder: Path, number: int | None, only: str = ""
) -> Iterator:
    """Folders of a process that was killed at a call; of so many calls, or of all."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    whole = folder / "whole"
    whole.mkdir()
    assert workers.run(work, whole) == [0]  # compiles, and shows which paths there are
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
    assert workers.run(work, counted, *tracing, *paths(counted)) == [0]
    calls = Counter(re.findall(r"(?m)^\d+ +(\w+)\(", log.read_text()))
    assert sum(calls.values()) > 10
    chosen = [name for name in calls if only in ("", name)]
    places = [(name, n) for name in chosen for n in range(1, calls[name] + 1)]
    step = 1 if number is None else max(1, len(places) // number)
    died = 0
    for name, n in places[::step]:
        place = folder / f"{name} {n}"
        place.mkdir()
        inject = ("-e", f"inject={name}:signal=KILL:when={n}")
        died += workers.run(work, place, *tracing, *inject, *paths(place)) == [-9]
        yield place
        shutil.rmtree(place)
    assert died >= 0.9 * len(places[::step])
    tried = len(places[::step])
    case = f"{work}, {only}" if only else work
    if tried:  # a training truncates nothing, say
        keep("killed", case, tried=tried, held=tried, calls=len(places), died=died)


TIMES = pytest.mark.parametrize("number", [2, pytest.param(None, marks=SLOW)])


@TIMES
def test_a_folder_whose_writer_was_killed_at_a_system_call_goes_on(
    number: int | None, workers: Workers, tmp_path: Path
) -> None:
    for place in killed(workers, "run", tmp_path, number):
        check_run(place, reported(place))


@TIMES
def test_no_killed_client_sent_an_upload_that_its_ledger_did_not_count(
    number: int | None, workers: Workers, tmp_path: Path
) -> None:
    for place in killed(workers, "client", tmp_path, number):
        check_client(place, reported(place))


@SLOW
@pytest.mark.parametrize("times", [50])
def test_a_client_killed_at_random_moments_has_counted_all_that_it_sent(
    times: int, workers: Workers, tmp_path: Path
) -> None:
    rng, total = np.random.default_rng(0), Counter[str]()
    begun = time.monotonic()
    assert workers.run("busy client", tmp_path) == [0]
    whole = time.monotonic() - begun
    for number in range(10 * times):
        place = tmp_path / str(number)
        place.mkdir()
        moment = rng.uniform(0, whole)
        if workers.run("busy client", place, seconds=moment) == [0]:
            whole *= 0.9  # it had ended
            continue
        check_client(place, reported(place))
        total["died"] += 1
        if reported(place) > 0:
            uploads = client_of(place).read().sums["uploads"][0]
            total += Counter(sent=reported(place), counted=int(uploads))
        if total["died"] == times:
            break
    assert total["died"] == times
    assert total["sent"] <= total["counted"]
    told = f"{total['sent']} uploads sent, {total['counted']} counted"
    keep("budget", "killed at random moments", tried=times, held=times, came_back=told)


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=SLOW)])
def test_two_processes_of_one_client_have_one_budget(
    times: int, workers: Workers, tmp_path: Path
) -> None:
    """Each asks for all five rounds; every round is answered by one of them."""
    sent = 0
    for number in range(times):
        place = tmp_path / str(number)
        place.mkdir()
        client_of(place, num_rounds=5).begin(30)
        assert workers.run("one of two", place, count=2) == [0, 0]
        rounds = (place / "reported").read_text().split()
        assert len(set(rounds)) == len(rounds) > 0
        assert client_of(place).read().sums["uploads"] == [len(rounds)]
        sent += len(rounds)
    told = f"{sent} of {5 * times} rounds sent, each once and counted"
    keep("budget", "two processes at once", tried=times, held=times, came_back=told)


@SLOW
@pytest.mark.parametrize("call", CHANGES.split(","))
def test_a_run_killed_at_any_write_resumes_to_the_same_bytes(
    call: str, workers: Workers, tmp_path: Path
) -> None:
    for place in killed(workers, "training", tmp_path, None, only=call):
        assert workers.run("training", place) == [0]
        assert_same_bytes(place / "run", tmp_path / "whole" / "run")


@pytest.mark.parametrize("times", [5, pytest.param(200, marks=SLOW)])
def test_of_two_processes_on_one_folder_one_writes_and_the_other_says_who(
    times: int, workers: Workers, tmp_path: Path
) -> None:
    ended = Counter[int]()
    for number in range(times):
        folder = tmp_path / str(number)
        folder.mkdir()
        both = workers.run("run", folder, count=2)
        assert set(both) <= {0, 3} and 0 in both, both
        ended.update(both)
        check_run(folder, 4)
    keep("of two", "run", tried=times, held=times, refused=ended[3])


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=SLOW)])
def test_what_was_saved_is_there_after_memory_was_exhausted(
    step: int, workers: Workers, tmp_path: Path
) -> None:
    """While it saves, and then while it loads; 1 MiB of arrays takes 8 MiB."""
    ended = Counter[int]()
    for spare in range(0, 72, step):
        folder = tmp_path / str(spare)
        folder.mkdir()
        for _ in ("saving", "loading"):
            ended.update(workers.run("large run", folder, spare=spare * 2**20))
        check_run(folder, reported(folder), size=2**20)
    assert set(ended) == {0, 4} and ended[4] >= 2, ended
    keep("memory", "run", tried=sum(ended.values()), held=sum(ended.values()),
         exhausted=ended[4])  # fmt: skip
