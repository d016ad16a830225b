"""The folder that processes share: a follower writes nothing and learns everything."""

import pathlib

import numpy as np
import pytest

from fedsvp_jax.devices import processes
from fedsvp_jax.run.checkpoint import SharedCheckpointer
from fedsvp_jax.run.folder import SharedFolder


def test_the_first_process_writes_what_the_folder_itself_would(
    tmp_path: pathlib.Path,
) -> None:
    folder = SharedFolder(tmp_path / "run")
    folder.start({"seed": 0}, resume=False)
    folder.append("metrics.jsonl", [{"round": 1}, {"round": 2}])
    folder.keep_rounds("metrics.jsonl", 1)
    folder.write("summary.json", {"rounds": 1})
    assert folder.rows("metrics.jsonl") == [{"round": 1}]
    names = sorted(path.name for path in folder.path.iterdir())
    assert names == ["config.json", "metrics.jsonl", "summary.json"]


def test_held_rows_are_written_once_and_not_again_when_they_could_not_be(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SharedFolder(tmp_path / "run")
    folder.start({}, resume=False)
    folder.hold("metrics.jsonl", [{"round": 1}])
    folder.hold("metrics.jsonl", [{"round": 2}])
    assert folder.rows("metrics.jsonl") == []
    folder.write_held()
    folder.write_held()
    assert folder.rows("metrics.jsonl") == [{"round": 1}, {"round": 2}]

    def full(*_: object) -> None:
        raise OSError("full")

    folder.hold("metrics.jsonl", [{"round": 3}])
    with monkeypatch.context() as patch:
        patch.setattr(folder, "append", full)
        with pytest.raises(OSError, match="full"):
            folder.write_held()
    folder.write_held()
    assert len(folder.rows("metrics.jsonl")) == 2


def test_a_follower_writes_nothing(tmp_path: pathlib.Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "is_first", lambda: False)
        folder = SharedFolder(tmp_path / "run")
        folder.append("metrics.jsonl", [{"round": 1}])
        folder.write("summary.json", {"rounds": 1})
        checkpointer = SharedCheckpointer(tmp_path / "run" / "checkpoints")
        checkpointer.save(1, {"x": np.zeros(2, np.float32)})
        checkpointer.close()
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_comes_back_to_the_bit(tmp_path: pathlib.Path) -> None:
    state = {"x": np.asarray([-0.0, np.nan, 1e-40], np.float32), "n": np.int32(7)}
    checkpointer = SharedCheckpointer(tmp_path / "checkpoints")
    assert checkpointer.restore(state) is None
    checkpointer.save(4, state)
    checkpointer.close()
    again = SharedCheckpointer(tmp_path / "checkpoints").restore(state)
    assert again is not None
    restored, round_num = again
    assert round_num == 4
    for name, leaf in state.items():
        assert restored[name].tobytes() == leaf.tobytes(), name
