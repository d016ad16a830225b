"""Damaged folders are told in one line that names the file and the place."""

import json
from pathlib import Path

import pytest

from fedsvp_jax.report import read


def metrics(change: dict[str, object]) -> bytes:
    return json.dumps({"round": 1, "test_accuracy": 0.5} | change).encode() + b"\n"


UPLOAD = {"round": 1, "client": 2}
# Of a run's file: its content (None: it is missing), and what the error says.
DAMAGED = [
    *((name, None, f"has no {name}") for name in read.RUN_FILES[:-1]),
    ("config.json", b"\xff\xfe\x00", "config.json is not valid JSON"),
    ("metrics.jsonl", metrics({}) + b'{"rou', "line 2 is not valid JSON"),
    ("metrics.jsonl", metrics({"round": 1.5}), "line 1: round is no whole number"),
    ("clients.jsonl", json.dumps(UPLOAD).encode(), "line 1 has no field 'noise_std'"),
]


@pytest.mark.parametrize(("name", "content", "message"), DAMAGED)
def test_damage_of_a_run_is_named_in_one_line(
    run_dir: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is None:
        (run_dir / name).unlink()
    else:
        (run_dir / name).write_bytes(content)
    with pytest.raises(ValueError) as error:
        read.read_run(run_dir)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_damage_of_a_sweep_is_named(sweep_dir: Path) -> None:
    for name, content, message in (
        ("cells.json", "{}", "cells.json must be a JSON list"),
        ("results.jsonl", "\n", "no round has been recorded"),
    ):
        (sweep_dir / name).write_text(content)
        with pytest.raises(ValueError, match=message):
            read.read_sweep(sweep_dir)


def test_other_folders_are_not_read_as_a_run(sweep_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no metrics\.jsonl: a run's folder has"):
        read.read_run(sweep_dir)
    with pytest.raises(ValueError, match=r"has no config\.json"):
        read.read_run(tmp_path / "nothing")


def test_an_unfinished_run_is_told_from_a_folder_that_is_no_run(run_dir: Path) -> None:
    (run_dir / "summary.json").unlink()
    with open(run_dir / "metrics.jsonl", "a") as file:
        file.write('{"round": 7, "test')  # torn by a kill
    run = read.read_run(run_dir)
    assert run.unfinished
    assert [row["round"] for row in run.metrics] == [1, 2, 3, 4, 5, 6]
    (run_dir / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match=r"has no metrics\.jsonl"):
        read.read_run(run_dir)
