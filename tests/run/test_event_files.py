"""TensorBoard's event files without a run: what is written, and what is missing."""

import pathlib
import sys

import pytest
from event_scalars import event_scalars

from fedsvp_jax.run.event_files import EventFiles

ROW = {"round": 3, "seed": 1, "epsilon": 0.5, "test_accuracy": 0.25, "test_loss": None}
LATER = ROW | {"round": 4, "epsilon_spent": {"rdp": 2.0}}
FOUND = {"test_accuracy": [(3, 0.25), (4, 0.25)], "epsilon_spent/rdp": [(4, 2.0)]}


def write(folder: pathlib.Path, *, enabled: bool, run: str = "") -> None:
    logs = EventFiles(folder, enabled=enabled)
    logs.start(run)
    logs.add(run, ROW)
    logs.add(run, LATER)
    logs.close()


def test_numbers_are_scalars_and_a_second_start_takes_the_place_of_the_first(
    tmp_path: pathlib.Path,
) -> None:
    place = tmp_path / "tensorboard" / "a-0.5-1"
    place.mkdir(parents=True)
    (place / "stale").touch()
    write(tmp_path, enabled=True, run="a-0.5-1")
    assert event_scalars(place) == FOUND and not (place / "stale").exists()


def test_a_missing_library_is_named_before_anything_is_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ValueError, match=r"pip install 'fedsvp_jax\[tensorboard\]'"):
        EventFiles(tmp_path, enabled=True)
    write(tmp_path, enabled=False)
    assert not list(tmp_path.iterdir())
