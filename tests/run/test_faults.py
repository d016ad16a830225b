"""Writes that fail or never happen: the run goes on later, to the same bytes."""

import errno
import json
import os
import pathlib
from typing import Any

import numpy as np
import pytest
from small_runs import (
    SAME_BYTES,
    contents,
    digits,
    run_small,
    shared_rounds,  # noqa: F401, a fixture
    small,
)

from fedsvp_jax.run import checkpoint
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.files import WriteError

ROUNDS = 4
WRITES = ("fsync", "replace", "mkdir")

pytestmark = pytest.mark.usefixtures("shared_rounds")


def train(folder: pathlib.Path, *, resume: bool = True) -> dict[str, Any]:
    config = small(mechanism="none", num_rounds=ROUNDS)
    every = {"rounds_per_call": 1, "checkpoint_every": 1}
    return run_small(config, folder, resume=resume, **every)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder)
    return folder


def assert_same(folder: pathlib.Path, whole: pathlib.Path) -> None:
    assert contents(folder, SAME_BYTES) == contents(whole, SAME_BYTES)
    states = [place / "checkpoints" / str(ROUNDS) for place in (folder, whole)]
    assert states[0].read_bytes() == states[1].read_bytes()


class Killed(BaseException):
    """In place of a signal: nothing in the code handles it."""


class Writes:
    """Counts what reaches the disk, and lets it fail from the n-th write on."""

    def __init__(
        self, patch: pytest.MonkeyPatch, error: BaseException, first: int, last: float
    ) -> None:
        self.count = 0
        for name in WRITES:
            real = getattr(os, name)
            patch.setattr(os, name, self._failing(real, error, first, last))

    def _failing(self, real: Any, error: BaseException, first: int, last: float) -> Any:
        def write(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if first <= self.count <= last:
                raise error
            return real(*arguments, **named)

        return write


@pytest.fixture(scope="module")
def num_writes(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("counted") / "run"
    with pytest.MonkeyPatch.context() as patch:
        writes = Writes(patch, Killed(), 0, 0)
        train(folder)
    assert writes.count > 25
    return writes.count


def places(num_writes: int, number: int) -> list[int]:
    return np.unique(np.linspace(1, num_writes, number).astype(int)).tolist()


def test_a_run_killed_at_a_write_resumes_to_the_same_bytes(
    whole: pathlib.Path, num_writes: int, tmp_path: pathlib.Path
) -> None:
    for number in places(num_writes, 5):
        folder = tmp_path / str(number)
        with pytest.MonkeyPatch.context() as patch:
            Writes(patch, Killed(), number, np.inf)
            with pytest.raises(Killed):
                train(folder)
        train(folder)
        assert_same(folder, whole)


@pytest.mark.parametrize("lasting", [False, True])
def test_a_full_disk_ends_the_run_with_a_way_on_and_it_resumes_to_the_same_bytes(
    lasting: bool, whole: pathlib.Path, num_writes: int, tmp_path: pathlib.Path
) -> None:
    for number in places(num_writes, 4):
        folder = tmp_path / str(number)
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with pytest.MonkeyPatch.context() as patch:
            Writes(patch, full, number, np.inf if lasting else number)
            try:
                train(folder)
            except OSError as error:
                message = str(error)
                assert "No space left on device" in message and "\n" not in message
                if isinstance(error, WriteError):
                    assert message.endswith("the same command and --resume")
            else:
                assert not lasting
        for path in folder.glob("*.json*"):
            for line in path.read_text().splitlines() if path.suffix > ".json" else ():
                json.loads(line)
        train(folder)
        assert_same(folder, whole)


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
    whole: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(whole, SAME_BYTES)
    with monkeypatch.context() as patch:
        was = checkpoint.STATE_VERSION
        patch.setattr(checkpoint, "STATE_VERSION", was + 1)
        told = f"state_version is {was + 1} and was {was}"
        with pytest.raises(ValueError, match=told):
            train(whole)
    with monkeypatch.context() as patch:
        patch.setitem(vars(digits()), "fingerprint", "0" * 64)
        with pytest.raises(ValueError, match=r"data_fingerprint is '000"):
            train(whole)
    assert contents(whole, SAME_BYTES) == before
