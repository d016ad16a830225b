"""Damaged folders are told in one line that names the file and the place."""

import json
from pathlib import Path

import pytest
from small_folders import change, read_rows, write_rows

from fedsvp_jax.report import read


def one_line(error: pytest.ExceptionInfo[ValueError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("name", read.RUN_FILES[:-1])
def test_a_missing_file_of_a_run_is_named(run_dir: Path, name: str) -> None:
    (run_dir / name).unlink()
    with pytest.raises(ValueError) as error:
        read.read_run(run_dir)
    assert name in one_line(error)


def test_an_unfinished_run_is_told_from_a_folder_that_is_no_run(run_dir: Path) -> None:
    (run_dir / "summary.json").unlink()
    with open(run_dir / "metrics.jsonl", "a") as file:
        file.write('{"round": 7, "test')  # torn by a kill
    run = read.read_run(run_dir)
    assert run.unfinished is not None and "6 of 6 rounds" in run.unfinished
    assert [row["round"] for row in run.metrics] == [1, 2, 3, 4, 5, 6]
    (run_dir / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match="it is not the folder of a run or sweep"):
        read.read_run(run_dir)


def test_a_sweeps_folder_is_not_read_as_a_run(sweep_dir: Path) -> None:
    with pytest.raises(ValueError, match=r"is a sweep's folder.*frames\.results"):
        read.read_run(sweep_dir)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a folder"):
        read.read_run(tmp_path / "nothing")


def test_a_mechanism_under_its_former_name_is_read_under_its_name_of_today(
    sweep_dir: Path,
) -> None:
    rows = read_rows(sweep_dir / "results.jsonl")
    write_rows(
        sweep_dir / "results.jsonl",
        (row | {"mechanism": "sensitivity"} for row in rows),
    )
    names = ["none", "sensitivity"]
    change(sweep_dir / "config.json", mechanism="sensitivity", mechanisms=names)
    change(sweep_dir / "config.json", contribution_release="none")
    sweep = read.read_sweep(sweep_dir)
    assert {row["mechanism"] for row in sweep.results} == {"reestimation"}
    assert sweep.config["mechanism"] == "reestimation"
    assert sweep.config["contribution_release"] == "raw"
    assert sweep.config["mechanisms"] == ["none", "reestimation"]


def test_a_half_written_line_is_named_by_its_number(run_dir: Path) -> None:
    path = run_dir / "metrics.jsonl"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ValueError) as error:
        read.read_run(run_dir)
    assert "metrics.jsonl line 6 is not valid JSON" in one_line(error)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test_accuracy": "high"}, "test_accuracy must be a number or null"),
        ({"round": -1}, "round must be a whole number >= 0"),
        ({"round": 1.5}, "round must be a whole number >= 0"),
        ({"round": True}, "round must be a whole number >= 0"),
        ({"epsilon_spent": 3}, "epsilon_spent must be an object"),
        ({"epsilon_spent": {"rdp": "x"}}, "epsilon_spent must be a number or null"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(
    run_dir: Path, change: dict[str, object], message: str
) -> None:
    row = {"round": 1, "test_accuracy": 0.5} | change
    (run_dir / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError) as error:
        read.read_run(run_dir)
    assert message in one_line(error)


def test_a_row_without_a_needed_field_is_named(run_dir: Path) -> None:
    (run_dir / "clients.jsonl").write_text('{"round": 1, "client": 2}\n')
    with pytest.raises(ValueError, match=r"clients.jsonl row 1 has no field 'noise_st"):
        read.read_run(run_dir)


def test_utilities_that_do_not_fit_the_shapley_values_are_refused(
    run_dir: Path,
) -> None:
    path = run_dir / "clients.jsonl"
    write_rows(path, [read_rows(path)[0] | {"utilities": [0.0, 0.3]}])
    with pytest.raises(ValueError, match="utilities must hold 2\\^2 = 4 numbers"):
        read.read_run(run_dir)


def test_bytes_that_are_no_text_are_refused(run_dir: Path) -> None:
    (run_dir / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"config.json is not UTF-8"):
        read.read_run(run_dir)


def test_a_sweep_without_a_round_is_refused(sweep_dir: Path) -> None:
    (sweep_dir / "results.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="no round has been recorded"):
        read.read_sweep(sweep_dir)


def test_damaged_cells_of_a_sweep_are_named(sweep_dir: Path) -> None:
    (sweep_dir / "cells.json").write_text("{}")
    with pytest.raises(ValueError, match=r"cells\.json must be a JSON list"):
        read.read_sweep(sweep_dir)


def test_infinite_and_missing_numbers_read_as_unknown() -> None:
    assert read.number(float("inf")) is None
    assert read.number(float("nan")) is None
    assert read.number(None) is None
    assert read.number(3) == 3.0
