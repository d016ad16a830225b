"""SIGINT and SIGTERM end a run or a sweep at a place from which it goes on."""

import os
import pathlib
import signal
import threading
from typing import Any

import pytest
from commands import assert_same_bytes, program
from small_runs import digits, run_small, small

from fedsvp_jax.run.stopping import Stopped, StopRequests
from fedsvp_jax.run.sweep import SweepPlan, sweep
from fedsvp_jax.run.trainer import Trainer

pytestmark = pytest.mark.usefixtures("shared_rounds")


def train(folder: pathlib.Path, *, resume: bool = False) -> dict[str, Any]:
    config = small(mechanism="none", num_rounds=6)
    return run_small(config, folder, resume=resume, checkpoint_every=100)


def signal_in_call(patch: pytest.MonkeyPatch, number: int, call: int) -> None:
    """Sends this process the signal while its compiled call `call` is in flight."""
    advance, calls = Trainer.advance, []

    def advance_and_signal(self: Trainer, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), number)
        return advance(self, *arguments)

    patch.setattr(Trainer, "advance", advance_and_signal)


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize(
    ("number", "call", "rounds"), [(signal.SIGTERM, 1, 2), (signal.SIGINT, 2, 4)]
)
def test_a_signal_ends_a_run_after_the_call_in_flight_and_it_resumes_to_the_same_bytes(
    number: int, call: int, rounds: int, tmp_path: pathlib.Path
) -> None:
    before = handlers()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped) as raised:
        signal_in_call(patch, number, call)
        train(tmp_path / "run")
    assert handlers() == before
    name = signal.Signals(number).name
    assert raised.value.signal_number == number
    assert str(raised.value) == (
        f"stopped by {name} after round {rounds} of 6 (none), which is saved; go on "
        "with the same command and --resume"
    )
    assert (tmp_path / "run" / "checkpoints" / str(rounds)).is_file()
    assert not (tmp_path / "run" / "summary.json").exists()
    train(tmp_path / "run", resume=True)
    train(tmp_path / "whole")
    assert_same_bytes(tmp_path / "run", tmp_path / "whole")


def test_a_signal_in_the_last_call_lets_the_run_end(tmp_path: pathlib.Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        signal_in_call(patch, signal.SIGTERM, 3)
        assert train(tmp_path / "run")["rounds"] == 6


def test_a_signal_between_two_mechanisms_ends_a_sweep_before_the_next(
    tmp_path: pathlib.Path,
) -> None:
    plan = SweepPlan(mechanisms=("none", "gaussian"), epsilons=(0.5,), seeds=(0,))
    with pytest.MonkeyPatch.context() as patch:
        signal_in_call(patch, signal.SIGTERM, 1)
        with pytest.raises(Stopped, match=r"SIGTERM before round 1 \(gaussian\);"):
            sweep(small(num_rounds=1), plan, tmp_path, dataset=digits())
    assert "none" in (tmp_path / "cells.json").read_text()


SECOND_SIGNAL = """
import os, signal, threading, time
from fedsvp_jax.run.stopping import StopRequests

def send():
    for _ in range(2):
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

with StopRequests():
    threading.Thread(target=send).start()
    while True:
        time.sleep(0.01)
"""


def test_a_second_signal_ends_the_process_at_once() -> None:
    assert program(SECOND_SIGNAL).status == -signal.SIGTERM


def test_another_thread_neither_takes_signals_nor_is_asked_to_stop() -> None:
    before, seen = handlers(), []

    def inside() -> None:
        with StopRequests() as stop:
            seen.append((handlers(), stop.received))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [(before, None)]
