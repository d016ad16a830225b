"""Checkpoints: whole, or named as damaged and passed over; nothing intact is lost."""

import logging
import os
import pathlib
from typing import Any

import jax
import numpy as np
import pytest

from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.folder import identity


def state(value: int) -> dict[str, Any]:
    """As a run's: nested, with a scalar, an empty part and odd numbers."""
    kernel = np.random.default_rng(value).normal(size=(40, 7)).astype(np.float32)
    kernel[0, :3] = -0.0, np.nan, 1e-40
    return {
        "server": {"kernel": kernel, "none": None},
        "ledgers": [{"uploads": np.arange(9) + value, "scalars": np.float64(value)}],
    }


def assert_restored(found: tuple[Any, int] | None, round_num: int) -> None:
    """To the bit."""
    assert found is not None and found[1] == round_num
    both = map(jax.tree.leaves, (found[0], state(round_num)))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*both, strict=True))


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Checkpoints of the rounds 3 (too old to be kept), 6 and 9."""
    checkpointer = Checkpointer(tmp_path / "checkpoints", "run")
    assert checkpointer.restore(state(0)) is None
    for round_num in (3, 6, 9):
        checkpointer.save(round_num, state(round_num))
    return tmp_path / "checkpoints"


def restore(folder: pathlib.Path) -> tuple[Any, int] | None:
    return Checkpointer(folder, "run").restore(state(0))


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def flip(path: pathlib.Path, position: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def test_a_flipped_bit_is_found_and_the_older_one_used(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(0)
    path = folder / "9"
    whole = path.read_bytes()
    places = rng.integers(len(whole), size=20)
    for place in (0, 63, 64, 65, len(whole) - 1, *places):  # the sum ends at 64
        flip(path, int(place), int(rng.integers(8)))
        caplog.clear()
        assert_restored(restore(folder), 6)
        (warning,) = caplog.records
        assert warning.levelno == logging.WARNING
        assert f"{folder}/9 is damaged" in warning.getMessage()
        assert "going on from that of round 6" in warning.getMessage()
        path.write_bytes(whole)
    assert_restored(restore(folder), 9)


def truncate(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def test_a_damaged_or_missing_file_is_found_and_nothing_is_deleted(
    folder: pathlib.Path,
) -> None:
    path = folder / "9"
    for damage in (truncate, lambda path: path.write_bytes(b""), os.remove, os.mkdir):
        damage(path)
        before = files(folder)
        assert_restored(restore(folder), 6)
        assert files(folder) == before


def test_none_intact_is_one_error_that_names_all_and_deletes_nothing(
    folder: pathlib.Path,
) -> None:
    truncate(folder / "9")
    flip(folder / "6", 100, 1)
    before = files(folder)
    with pytest.raises(ValueError, match="none is left to go on from") as raised:
        restore(folder)
    message = str(raised.value)
    assert "\n" not in message
    assert f"{folder}/9 is damaged" in message
    assert f"{folder}/6 is damaged (it differs from its SHA-256, " in message
    assert files(folder) == before


def test_a_damaged_checkpoint_is_replaced_when_its_round_comes_again(
    folder: pathlib.Path,
) -> None:
    truncate(folder / "9")
    (folder / "12.tmp").write_text("of a save that was killed")
    checkpointer = Checkpointer(folder, "run")
    assert_restored(checkpointer.restore(state(0)), 6)
    checkpointer.save(7, state(7))
    assert checkpointer.rounds() == [6, 7, 9]
    checkpointer.save(9, state(9))
    assert checkpointer.rounds() == [7, 9] and not (folder / "12.tmp").exists()
    assert_restored(restore(folder), 9)


def test_a_checkpoint_of_another_run_or_round_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    """--resume took a checkpoint of another seed, whose ε mixed both runs."""
    config = {"seed": 0, "num_rounds": 9}
    mine, place = identity(config), tmp_path / "checkpoints"
    assert identity(config | {"num_rounds": 20}) == mine
    Checkpointer(place, mine).save(3, state(3))
    assert Checkpointer(place, mine).newest() is not None
    with pytest.raises(ValueError, match="of another run or round"):
        Checkpointer(place, identity(config | {"seed": 1})).newest()
    (place / "3").rename(place / "5")
    with pytest.raises(ValueError, match="of another run or round"):
        Checkpointer(place, mine).newest()
