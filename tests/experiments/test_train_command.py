"""experiments.train as a user types it: kill -9, and the folders that it refuses."""

import pathlib
import time

import pytest
from commands import (
    SMALL_RUN,
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


def test_a_folder_is_neither_missing_nor_foreign_nor_another_run(
    whole: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "a").write_text("foreign")
    again = arguments(whole)
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    for line, named in (
        (("experiments.train",), "--output_dir is required"),
        (("experiments.train", f"--output_dir={tmp_path}"), "holds no run"),
        (again, "--resume"),
        ((*again, "--resume", "--epsilon=0.25"), "epsilon is 0.25 and was 0.5"),
    ):
        ended = command(*line)
        assert_sentence(ended, named)
        assert ended.stdout == ""
    assert before == {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    assert len(list(tmp_path.iterdir())) == 1
