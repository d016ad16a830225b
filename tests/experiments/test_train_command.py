"""experiments.train as a user types it, and `kill -9`."""

import pathlib
import re
import time

from commands import SMALL_RUN, assert_same_bytes, start, succeeds


def arguments(folder: pathlib.Path) -> tuple[str, ...]:
    return (
        "experiments.train",
        *SMALL_RUN,
        "--mechanism=nbafl",
        "--num_rounds=40",
        f"--output_dir={folder}",
        "--rounds_per_call=1",
        "--checkpoint_every=3",
        "--noreport",
    )


def test_a_killed_run_resumes_to_the_same_bytes_as_an_uninterrupted_one(
    tmp_path: pathlib.Path,
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    succeeds(*arguments(whole))
    with start(*arguments(folder)) as process:
        deadline = time.monotonic() + 600
        while not (folder / "checkpoints" / "6").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    assert not (folder / "summary.json").exists()
    resumed = succeeds(*arguments(folder), "--resume").stderr
    assert re.search(r"warning: goes on at round \d+ of \d+\n", resumed), resumed
    assert_same_bytes(folder, whole)
