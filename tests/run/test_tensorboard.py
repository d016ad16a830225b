"""Event files without a run: what is written, and what is missing."""

import pathlib
import sys

import pytest
from event_scalars import event_scalars

from fedsvp_jax.run.tensorboard import EventFiles

ROW = {"round": 3, "seed": 1, "epsilon": 0.5, "test_accuracy": 0.25, "test_loss": None}


def test_numbers_are_scalars_and_names_of_cells_are_not(tmp_path: pathlib.Path) -> None:
    events = EventFiles(tmp_path, wanted=True)
    events.start("a-0.5-1", [ROW, ROW | {"round": 4, "epsilon_spent": {"rdp": 2.0}}])
    events.close()
    found = event_scalars(tmp_path / "tensorboard" / "a-0.5-1")
    assert found == {
        "test_accuracy": [(3, 0.25), (4, 0.25)],
        "epsilon_spent/rdp": [(4, 2.0)],
    }


def test_a_second_start_takes_the_place_of_the_first(tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        events = EventFiles(tmp_path, wanted=True)
        events.start("", [ROW])
        events.close()
    assert event_scalars(tmp_path / "tensorboard")["test_accuracy"] == [(3, 0.25)]


def test_unwanted_event_files_need_nothing_and_write_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    events = EventFiles(tmp_path, wanted=False)
    events.start("", [ROW])
    events.add("", ROW)
    events.flush()
    events.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"pip install 'fedsvp_jax\[tensorboard\]'"):
        EventFiles(tmp_path, wanted=True)
