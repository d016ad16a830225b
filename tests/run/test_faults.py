"""Writes that fail or never happen: the run goes on later, to the same bytes."""

import errno
import os
import pathlib
from functools import partial
from typing import Any

import numpy as np
import pytest
from small_runs import SAME_BYTES, contents, digits, read_rows, run_small, small

from fedsvp_jax.core.files import WriteError
from fedsvp_jax.run import checkpoint
from fedsvp_jax.run.checkpoint import Checkpointer

ROUNDS = 4
WRITES = ("fsync", "replace", "mkdir")

pytestmark = pytest.mark.usefixtures("shared_rounds")


def train(folder: pathlib.Path, *, resume: bool = True) -> dict[str, Any]:
    config = small(mechanism="none", num_rounds=ROUNDS)
    every = {"rounds_per_call": 1, "checkpoint_every": 1}
    return run_small(config, folder, resume=resume, **every)


def assert_same(folder: pathlib.Path, whole: pathlib.Path) -> None:
    assert contents(folder, SAME_BYTES) == contents(whole, SAME_BYTES)
    states = [place / "checkpoints" / str(ROUNDS) for place in (folder, whole)]
    assert states[0].read_bytes() == states[1].read_bytes()


class Killed(BaseException):
    """In place of a signal: nothing in the code handles it."""


def failing(
    patch: pytest.MonkeyPatch, error: BaseException, first: int, last: float
) -> list[str]:
    """Lets what reaches the disk fail from the n-th write on; the writes so far."""
    done: list[str] = []

    def write(name: str, real: Any, *arguments: Any, **named: Any) -> Any:
        done.append(name)
        if first <= len(done) <= last:
            raise error
        return real(*arguments, **named)

    for name in WRITES:
        patch.setattr(os, name, partial(write, name, getattr(os, name)))
    return done


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, int]:
    """An uninterrupted run, and how often it writes."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        done = failing(patch, Killed(), 0, 0)
        train(folder)
    assert len(done) > 25
    return folder, len(done)


def places(number: int, of: int) -> list[int]:
    return np.unique(np.linspace(1, of, number).astype(int)).tolist()


def test_a_run_killed_at_a_write_resumes_to_the_same_bytes(
    whole: tuple[pathlib.Path, int], tmp_path: pathlib.Path
) -> None:
    for number in places(5, of=whole[1]):
        folder = tmp_path / str(number)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            failing(patch, Killed(), number, np.inf)
            train(folder)
        train(folder)
        assert_same(folder, whole[0])


@pytest.mark.parametrize("lasting", [False, True])
def test_a_full_disk_ends_the_run_with_a_way_on_and_it_resumes_to_the_same_bytes(
    lasting: bool, whole: tuple[pathlib.Path, int], tmp_path: pathlib.Path
) -> None:
    for number in places(4, of=whole[1]):
        folder = tmp_path / str(number)
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with pytest.MonkeyPatch.context() as patch:
            failing(patch, full, number, np.inf if lasting else number)
            try:
                train(folder)
            except OSError as error:
                message = str(error)
                assert "No space left on device" in message and "\n" not in message
                if isinstance(error, WriteError):
                    assert message.endswith("the same command and --resume")
            else:
                assert not lasting
        for path in folder.glob("*.jsonl"):
            read_rows(path)
        train(folder)
        assert_same(folder, whole[0])


def test_a_write_that_fails_names_the_checkpoint_that_is_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Checkpointer.save

    def fails_in_round_three(self: Checkpointer, round_num: int, state: Any) -> None:
        if round_num == 3:
            raise WriteError(tmp_path / "3", "No space left on device")
        save(self, round_num, state)

    monkeypatch.setattr(Checkpointer, "save", fails_in_round_three)
    with pytest.raises(WriteError, match=r"the checkpoint of round 2 is kept: mend"):
        train(tmp_path / "run")


def test_another_version_of_the_state_and_other_data_are_refused(
    whole: tuple[pathlib.Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, was = whole[0], checkpoint.STATE_VERSION
    before = contents(folder, SAME_BYTES)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "STATE_VERSION", was + 1)
        with pytest.raises(ValueError, match=f"version is {was + 1} and was {was}"):
            train(folder)
    monkeypatch.setitem(vars(digits()), "fingerprint", "0" * 64)
    with pytest.raises(ValueError, match=r"data_fingerprint is '000"):
        train(folder)
    assert contents(folder, SAME_BYTES) == before
