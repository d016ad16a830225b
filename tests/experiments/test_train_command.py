"""experiments.train as a user types it: bytes, kill -9, help and refusals."""

import json
import pathlib
import time

import pytest
from commands import (
    SMALL_RUN,
    Ended,
    assert_same_bytes,
    assert_sentence,
    command,
    start,
    succeeds,
)


def arguments(folder: pathlib.Path) -> tuple[str, ...]:
    return (
        "experiments.train",
        *SMALL_RUN,
        "--num_rounds=20",
        f"--output_dir={folder}",
        "--rounds_per_call=1",
        "--checkpoint_every=3",
        "--noreport",
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    succeeds(*arguments(folder))
    return folder


def test_a_killed_run_resumes_to_the_same_bytes_as_an_uninterrupted_one(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "run"
    with start(*arguments(folder)) as process:
        deadline = time.monotonic() + 200
        while not (folder / "checkpoints" / "6").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    assert not (folder / "summary.json").exists()
    succeeds(*arguments(folder), "--resume")
    assert_same_bytes(folder, whole)


def assert_refused(ended: Ended, named: str) -> None:
    assert_sentence(ended, named)
    assert ended.stdout == ""


@pytest.fixture(scope="module")
def ends(
    whole: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Ended]:
    """How every command line ends that does no work, by name."""
    foreign = tmp_path_factory.mktemp("foreign")
    (foreign / "a").write_text("foreign")
    again = list(arguments(whole))
    lines = {
        "help": ["experiments.train", "--help"],
        "no folder": ["experiments.train"],
        "foreign folder": ["experiments.train", f"--output_dir={foreign}"],
        "again": again,
        "resumed as another": [*again, "--resume", "--epsilon=0.25"],
    }
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    found = {name: command(*line) for name, line in lines.items()}
    assert len(list(foreign.iterdir())) == 1
    assert before == {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    return found


def test_a_missing_and_a_foreign_folder_are_refused(ends: dict[str, Ended]) -> None:
    assert_refused(ends["no folder"], "--output_dir is required")
    assert_refused(ends["foreign folder"], "holds no run")


def test_a_run_that_is_there_is_neither_overwritten_nor_resumed_as_another(
    ends: dict[str, Ended],
) -> None:
    assert_refused(ends["again"], "--resume")
    assert_refused(ends["resumed as another"], "epsilon is 0.25 and was 0.5")


def test_help_reads_as_a_manual(ends: dict[str, Ended]) -> None:
    assert ends["help"].status == 0 and ends["help"].stderr == ""
    manual = ends["help"].stdout
    parts = (
        "Runs one federated training with a noise mechanism",
        "Written to --output_dir",
        "Exit status",
        "Mechanisms:",
        "[reconstruction]",
        "Flags (--name=value)",
    )
    places = [manual.index(part) for part in parts]
    assert places == sorted(places)
    for name in ("epsilon", "output_dir", "resume", "num_devices", "dataset"):
        assert f"--{name}" in manual or f"--[no]{name}" in manual


def test_a_run_tells_where_its_files_are(whole: pathlib.Path) -> None:
    config = json.loads((whole / "config.json").read_text())
    assert config["dataset"] == "digits" and config["mechanism"] == "fedsva"
    assert config["client_chunk_size"] == 2
    assert set(config["versions"]) >= {"python", "jax", "numpy"}
    assert len(config["data_fingerprint"]) == 64
