"""Kept rows say where they come from; older ones are counted, not made up."""

import pathlib

import pytest
from commands import ROOT

from experiments import kept_rows, provenance
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import sources

RESULTS = ROOT / "docs" / "results"


def test_every_kept_row_names_its_commit_or_is_counted_as_older() -> None:
    assert provenance.faults(RESULTS) == []


def test_rows_after_the_counted_ones_need_provenance(tmp_path: pathlib.Path) -> None:
    (tmp_path / provenance.BEFORE).write_text('{"old.jsonl": 1}')
    (tmp_path / "old.jsonl").write_text('{"seed": 0}\n{"seed": 1}\n')
    (tmp_path / "new.json").write_text("{}")
    assert [one.partition(":")[0] for one in provenance.faults(tmp_path)] == [
        "new.json, row 1",
        "old.jsonl, row 2",
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda stamp: None, ""),
        (lambda stamp: stamp.pop("command"), "lacks command"),
        (lambda stamp: stamp["data"].pop("sha256"), "lacks data.sha256"),
        (lambda stamp: stamp.update(commit=None), "its commit is None"),
        (lambda stamp: stamp.update(commit="main"), "not 40 hexadecimal"),
        (lambda stamp: stamp.update(uncommitted=["a.py"]), "not committed: a.py"),
    ],
)
def test_a_stamp_is_whole_and_an_incomplete_one_is_refused(change, words: str) -> None:
    data = sources.load("digits")
    stamp = provenance.stamp(data, 3)
    assert stamp["data"]["sha256"] == data.fingerprint
    assert (stamp["data"]["train"], stamp["seed"]) == (len(data.train_labels), 3)
    stamp |= {"commit": "0" * 40, "uncommitted": []}  # whatever this checkout is
    change(stamp)
    fault = provenance.fault({"provenance": stamp})
    assert (words in str(fault)) if words else fault is None


def test_the_stamp_of_a_table_reads_it_as_its_settings_say(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,id,y\n" + "".join(f"{n},{n},{'ab'[n % 2]}\n" for n in range(9)))
    own = {"dataset": "csv", "data_dir": str(path), "label_column": "y"}
    hashes = {
        provenance.stamp_of_run(ExperimentConfig(**own, **more))["data"]["sha256"]
        for more in ({}, {"drop_columns": "id"})
    }
    assert len(hashes) == 2


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
