"""The folder's files: whole or not there, plain JSON, nothing overwritten."""

import json
import pathlib

import numpy as np
import pytest

from fedsvp_jax.run_folder import RunFolder, plain, write_json


def test_float32_is_written_by_its_shortest_form_and_reads_back_the_same() -> None:
    for value in np.random.default_rng(0).normal(size=200).astype(np.float32):
        assert np.float32(plain(value)) == value
    assert json.dumps(plain(np.float32(0.1))) == "0.1"


def test_numpy_becomes_plain_python_and_non_finite_becomes_null() -> None:
    content = {
        "integer": np.int32(3),
        "flag": np.bool_(True),
        "array": np.asarray([[1.0, np.nan]], np.float32),
        "tuple": (np.float32(np.inf), float("-inf"), None, "text"),
    }
    assert plain(content) == {
        "integer": 3,
        "flag": True,
        "array": [[1.0, None]],
        "tuple": [None, None, None, "text"],
    }
    assert json.loads(json.dumps(plain(content), allow_nan=False))


def test_a_file_is_replaced_whole_and_leaves_nothing_beside_it(
    tmp_path: pathlib.Path,
) -> None:
    write_json(tmp_path / "a.json", {"value": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"value": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"value": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_new_or_empty_folder_is_started(tmp_path: pathlib.Path) -> None:
    for folder in (tmp_path / "deep" / "new", tmp_path / "empty"):
        if folder.name == "empty":
            folder.mkdir()
        RunFolder(folder).start({"seed": 0}, resume=False)
        assert json.loads((folder / "config.json").read_text()) == {"seed": 0}


def test_resuming_where_nothing_is_starts_a_run(tmp_path: pathlib.Path) -> None:
    RunFolder(tmp_path / "run").start({"seed": 0}, resume=True)
    assert (tmp_path / "run" / "config.json").exists()


def test_a_folder_that_holds_a_run_is_refused_unless_resumed(
    tmp_path: pathlib.Path,
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.start({"seed": 0, "delta": 0.1}, resume=False)
    with pytest.raises(ValueError, match="already holds a run"):
        folder.start({"seed": 0, "delta": 0.1}, resume=False)
    folder.start({"seed": 0, "delta": np.float32(0.1)}, resume=True)


def test_resuming_another_configuration_names_the_differences(
    tmp_path: pathlib.Path,
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.start({"seed": 0, "model": "mlp", "only_old": 1}, resume=False)
    with pytest.raises(ValueError, match="cannot resume") as raised:
        folder.start({"seed": 1, "model": "mlp", "only_new": 2}, resume=True)
    message = str(raised.value)
    assert "seed is 1 and was 0" in message
    assert "only_new is 2 and was None" in message
    assert "only_old is None and was 1" in message
    assert "model" not in message
    assert json.loads((folder.path / "config.json").read_text())["seed"] == 0


@pytest.mark.parametrize("resume", [False, True])
def test_a_foreign_folder_or_file_is_refused_and_left_alone(
    resume: bool, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(ValueError, match="holds no run"):
            RunFolder(path).start({"seed": 0}, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_appended_rows_read_back(tmp_path: pathlib.Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.rows("metrics.jsonl") == []
    folder.append("metrics.jsonl", [{"round": 1}, {"round": np.int32(2)}])
    folder.append("metrics.jsonl", [])
    folder.append("metrics.jsonl", [{"round": 3}])
    assert folder.rows("metrics.jsonl") == [{"round": 1}, {"round": 2}, {"round": 3}]


def test_rows_after_a_checkpoint_and_a_torn_last_line_are_dropped(
    tmp_path: pathlib.Path,
) -> None:
    folder = RunFolder(tmp_path)
    folder.append("metrics.jsonl", [{"round": number} for number in (1, 2, 3)])
    before = (tmp_path / "metrics.jsonl").read_text().splitlines(keepends=True)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"round": 2')
    folder.keep_rows("metrics.jsonl", lambda row: row["round"] <= 2)
    assert (tmp_path / "metrics.jsonl").read_text() == "".join(before[:2])
    folder.keep_rows("never_written.jsonl", lambda row: True)
    assert not (tmp_path / "never_written.jsonl").exists()
