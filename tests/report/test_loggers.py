"""Loggers without a run: what is written for each tool, and what is missing."""

import os
import pathlib
import sys
import types
from typing import Any

import pytest
from event_scalars import event_scalars

from fedsvp_jax.run.loggers import LOGGERS, Loggers

ROW = {"round": 3, "seed": 1, "epsilon": 0.5, "test_accuracy": 0.25, "test_loss": None}
LATER = ROW | {"round": 4, "epsilon_spent": {"rdp": 2.0}}
FOUND = {"test_accuracy": [(3, 0.25), (4, 0.25)], "epsilon_spent/rdp": [(4, 2.0)]}


def write(folder: pathlib.Path, *names: str, run: str = "") -> None:
    logs = Loggers(folder, names)
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
    write(tmp_path, "tensorboard", run="a-0.5-1")
    assert event_scalars(place) == FOUND and not (place / "stale").exists()


class Told:
    """What a library was told, in turn."""

    info: Any
    experiment_id: str

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *told, **named: self.calls.append((name, *told, named)) or self


def test_wandb_is_told_number_by_number_and_sends_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    wandb = Told()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    write(tmp_path, "wandb", run="cell")
    (first, started), *told = wandb.calls
    assert first == "init" and started["mode"] == "offline"
    assert started["name"] == "cell"
    assert started["dir"] == str(tmp_path / "wandb" / "cell")
    assert told == [
        ("log", {"test_accuracy": 0.25}, {"step": 3}),
        ("log", {"test_accuracy": 0.25}, {"step": 4}),
        ("log", {"epsilon_spent/rdp": 2.0}, {"step": 4}),  # wandb adds up a step's
        ("finish", {}),
    ]


def test_mlflow_writes_files_in_the_runs_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "")  # put back after the test
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    mlflow = Told()
    mlflow.info = types.SimpleNamespace(run_id="mine")
    mlflow.experiment_id = "0"
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    write(tmp_path, "mlflow")
    assert os.environ["MLFLOW_ALLOW_FILE_STORE"] == "true"
    (_, started), *told = mlflow.calls
    assert started == {"tracking_uri": (tmp_path / "mlflow").as_uri()}
    assert told[1] == ("create_run", "0", {"run_name": tmp_path.name})
    assert told[2:] == [
        ("log_metric", "mine", "test_accuracy", 0.25, {"step": 3}),
        ("log_metric", "mine", "test_accuracy", 0.25, {"step": 4}),
        ("log_metric", "mine", "epsilon_spent/rdp", 2.0, {"step": 4}),
        ("set_terminated", "mine", {}),
    ]


@pytest.mark.parametrize("name", LOGGERS)
def test_a_missing_library_is_named_before_anything_is_written(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = {"tensorboard": "tensorboardX"}.get(name, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=rf"pip install 'fedsvp_jax\[{name}\]'"):
        Loggers(tmp_path, [name])
    with pytest.raises(ValueError, match=r"logger must be one of .*mean tensorboard"):
        Loggers(tmp_path, ["tensorbord"])
    write(tmp_path)
    assert not list(tmp_path.iterdir())
