"""Kept rows say where they come from; older ones are counted, not made up."""

import copy
import pathlib

import pytest
from commands import ROOT

from experiments import provenance
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


def test_a_stamp_is_whole_and_names_data_by_counts_and_hash() -> None:
    data = sources.load("digits")
    stamp = provenance.stamp(data, 3)
    stamp |= {"commit": "0" * 40, "uncommitted": []}  # whatever this checkout is
    assert provenance.fault({"provenance": stamp}) is None
    assert stamp["data"]["sha256"] == data.fingerprint
    assert stamp["data"]["train"] == len(data.train_labels)
    assert stamp["seed"] == 3


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda stamp: stamp.pop("command"), "lacks command"),
        (lambda stamp: stamp["data"].pop("sha256"), "lacks data.sha256"),
        (lambda stamp: stamp.update(commit=None), "its commit is None"),
        (lambda stamp: stamp.update(commit="main"), "not 40 hexadecimal"),
        (lambda stamp: stamp.update(uncommitted=["a.py"]), "not committed: a.py"),
    ],
)
def test_an_incomplete_stamp_is_refused(change, words: str) -> None:
    stamp = provenance.stamp(sources.load("digits"), 0)
    stamp |= {"commit": "0" * 40, "uncommitted": []}
    stamp = copy.deepcopy(stamp)
    change(stamp)
    assert words in (provenance.fault({"provenance": stamp}) or "")
