"""Work that reports what it has saved, and the check of what is left of it."""

import os
import resource
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from commands import SMALL_RUN
from deployed import UPDATE_CLIP, model, policy, trained
from small_runs import read_rows

from fedsvp_jax.deploy import Refused, Site, Trained, answer
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.folder import RunFolder

ROUNDS = [1, 2, 3, 4]


def a_run(folder: Path, size: int = 300) -> Iterator[int]:
    """Rows of a round, then its checkpoint, as a `Session` writes them; it goes on."""
    with RunFolder(folder / "runs" / "one") as place:
        place.start({"seed": 3}, resume=True)
        saver = Checkpointer(place.path / "checkpoints", place.identity)
        found = saver.restore(like := {"x": np.zeros(size), "rows": 0})
        first = found[1] if found else 0
        assert not found or np.all(found[0]["x"] == first)
        checksum = found[0]["rows"] if found else 0
        for name in ("metrics.jsonl", "clients.jsonl"):
            place.keep_rounds(name, first, is_ours=lambda row: True, checksum=checksum)
        yield first
        for number in ROUNDS[first:]:
            for name in ("metrics.jsonl", "clients.jsonl"):
                of_round = place.append(name, [{"round": number, "loss": 1 / number}])
            checksum = checksum + of_round
            saver.save(number, {"x": like["x"] + number, "rows": checksum})
            yield number


def check_run(folder: Path, reported: int, size: int = 300) -> None:
    first, *rest = a_run(folder, size)
    assert first >= reported and rest == ROUNDS[first:]
    for name in ("metrics.jsonl", "clients.jsonl"):
        rows = read_rows(folder / "runs" / "one" / name)
        assert [row["round"] for row in rows] == ROUNDS


def client_of(folder: Path, **changes: Any) -> Site:
    """With changes a client's that begins, else as its log says."""
    made = policy(**UPDATE_CLIP | changes) if changes else None
    return Site(folder / "state" / "client.json", made)


def a_client(folder: Path, rounds: int = 3) -> Iterator[int]:
    """A client that sends so many uploads."""
    file = client_of(folder, num_rounds=max(5, rounds))
    file.begin(30)
    yield 0
    for number in range(1, rounds + 1):
        update = Trained(trained(model()))
        answer(file, model(), lambda u=update: u, round_num=number)
        yield number


def one_of_two(folder: Path) -> Iterator[int]:
    """Goes on with a client's log for all rounds that the other has not answered."""
    for number in (1, 2, 3, 4, 5):
        try:
            answer(
                client_of(folder),
                model(),
                lambda: Trained(trained(model())),
                round_num=number,
            )
        except Refused:
            continue
        yield number


def check_client(folder: Path, reported: int) -> None:
    """All that was sent is counted, and at most one upload that was not."""
    if reported >= 0:  # it has begun
        file = client_of(folder)
        state = file.read()
        assert reported <= int(state.sums["uploads"][0]) == state.last_round
        assert state.last_round <= reported + 1
        with file.opened():
            pass


def a_training(folder: Path) -> Iterator[int]:
    """`experiments.train` to its end, or on from where it was."""
    sys.argv = ["experiments.train", *SMALL_RUN, "--num_rounds=4", "--noreport"]
    sys.argv += ["--rounds_per_call=1", "--checkpoint_every=2", "--resume"]
    sys.argv += [f"--output_dir={folder / 'run'}", "--progress=false"]
    try:
        runpy.run_module("experiments.train", run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        assert not stop.code
    yield 4


WORK: dict[str, Callable[[Path], Iterator[int]]] = {
    "run": a_run,
    "large run": partial(a_run, size=2**20),
    "client": a_client,
    "busy client": partial(a_client, rounds=200),
    "one of two": one_of_two,
    "training": a_training,
}


def do(work: str, folder: Path, spare: int | None) -> None:
    """Does the work in a process of its own, which stops before it begins.

    What the work reports as saved goes to FOLDER/reported, a line each. The process
    ends with 3 where another one writes the folder, with 4 where memory is exhausted;
    `spare` is the memory that it may take beside what it has.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.kill(os.getpid(), signal.SIGSTOP)
    if spare is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + spare
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    status = 0
    try:
        for saved in WORK[work](folder):
            with open(folder / "reported", "a") as file:
                print(saved, file=file)
    except ValueError as error:
        status = 3 if "is being written by" in str(error) else 1
    except MemoryError:
        status = 4
    os._exit(status)
