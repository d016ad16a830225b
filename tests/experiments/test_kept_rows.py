"""Rows that an experiment keeps survive a kill in the middle of a line."""

import pathlib

from experiments import kept_rows


def test_a_line_that_a_kill_left_unfinished_is_no_row_and_is_written_over(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "results" / "rows.jsonl"
    assert kept_rows.read(file) == []
    kept_rows.add(file, {"seed": 0})
    with file.open("a") as torn:
        torn.write('{"seed": 1, "accu')
    assert kept_rows.read(file) == [{"seed": 0}]
    kept_rows.add(file, {"seed": 1})
    assert kept_rows.read(file) == [{"seed": 0}, {"seed": 1}]
