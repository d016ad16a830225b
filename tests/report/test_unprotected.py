"""Rows that no ε covers are counted in front of a run, and their scores stay."""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
import pytest
import tiny_files
from small_runs import digits, run_small, shared_rounds, small

from fedsvp_jax import report, run
from fedsvp_jax.data import sources
from fedsvp_jax.data.datasets import leaf
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.store import writer
from fedsvp_jax.data.tables.table import from_table
from fedsvp_jax.federation.plan import recorded_settings
from fedsvp_jax.report import headline
from fedsvp_jax.run.sweep import SweepPlan

pytestmark = [pytest.mark.hole, pytest.mark.usefixtures(shared_rounds.__name__)]
COUNTED = "No ε covers {} of the {} rows"


def table(rows: int = 50, **more: Any):
    rng = np.random.default_rng(0)
    columns = {"a": rng.random(rows), "b": rng.random(rows)}
    return from_table({**columns, "ill": np.arange(rows) % 2}, label="ill", **more)


def test_a_delta_of_one_row_or_more_is_said_to_be_too_large() -> None:
    """--target_delta=.1 on 1,442 rows was called proved without a word."""
    config = {"mechanism": "gaussian", "target_delta": 0.1, "num_train_examples": 1442}
    text = headline.filled("unprotected", config)
    assert "δ = 0.1 is too large for 1442 training rows: who publishes one" in text
    assert "one row of 10 whole keeps" in text and "far below 0.0007" in text
    assert not headline.filled("unprotected", config | {"target_delta": 1e-5})
    assert not headline.filled("unprotected", config | {"mechanism": "none"})


def test_the_loss_of_a_table_tells_each_test_label_and_is_called_unprotected(
    tmp_path: pathlib.Path,
) -> None:
    """The page and the terminal said "proved", and the loss was listed as public."""
    data = table()
    config = small(mechanism="none", num_rounds=1, num_attributes=1, partition="iid")
    config = dataclasses.replace(config, num_clients=3, cohort_size=3, model="logistic")
    summary = run.train(config, tmp_path, dataset=data)
    loss = summary["final5_loss"]
    chances = run.load_model(tmp_path).probabilities(data.test_inputs)
    costs, labels = -np.log(np.float64(chances)), data.test_labels
    rows = np.arange(len(labels))
    right = costs[rows, labels]
    guessed = [
        min(
            (0, 1),
            key=lambda one: abs(
                (right.sum() - right[row] + costs[row, one]) / len(rows) - loss
            ),
        )
        for row in rows
    ]
    assert guessed == labels.tolist()
    told = headline.sentences(tmp_path, summary)["unprotected"]
    assert COUNTED.format(10, 50) + " (20 %): 10 for the test" in told
    public = (pathlib.Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    assert "**Test rows of a table, of an .npz file" in public
    page = report.write_run_report(tmp_path).read_text()
    assert COUNTED.format(10, 50) in page


def told(data: Any = None, **changes: Any) -> str:
    config = small(**changes)
    return headline.filled("unprotected", recorded_settings(config, data or digits()))


def test_all_that_is_scored_or_taken_without_noise_is_counted() -> None:
    data = dataclasses.replace(digits(), public_test=False)
    tests, rows = len(data.test_labels), len(data.test_labels) + len(data.train_labels)
    assert told() == ""
    assert COUNTED.format(tests, rows) in told(data)
    divided = told(data, validation_examples=40)
    assert COUNTED.format(tests, rows) in divided
    assert f"{tests - 40} for the test, 40 for validation" in divided
    centre = told(data, influence_filter="join", warmup_examples=30)
    assert COUNTED.format(tests + 30, rows) in centre
    assert "30 of the centre" in centre and "it starts from the centre's" in centre
    noised = told(data, publish_scores=True, validation_examples=40)
    assert COUNTED.format(40, rows) in noised and "for the test" not in noised
    assert told(data, publish_scores=True).startswith("On test rows, publish the score")


def test_a_sweep_says_that_a_cell_chosen_by_them_tells(tmp_path: pathlib.Path) -> None:
    data = dataclasses.replace(digits(), public_test=False)
    plan = SweepPlan(("nbafl",), (0.5,), (0,))
    run.sweep.sweep(small(num_rounds=1), plan, tmp_path, dataset=data)
    page = report.write_sweep_report(tmp_path).read_text()
    assert "since their scores may choose its cell" in page
    curves = (tmp_path / "epsilon.html").read_text()
    assert "test rows, which no ε covers" in curves
    run_small(small(mechanism="none", num_rounds=1), tmp_path / "b", dataset=data)
    compared = report.write_compare_report([tmp_path, tmp_path / "b"], tmp_path / "c")
    assert compared.read_text().count("No ε covers") == 2


def leaf_of(folder: pathlib.Path, users: dict[str, list[str]]) -> pathlib.Path:
    for part, names in users.items():
        one = {"x": [[0.5] * 784] * 2, "y": [0, 1]}
        body = {
            "users": names,
            "num_samples": [2] * len(names),
            "user_data": dict.fromkeys(names, one),
        }
        (folder / part).mkdir(parents=True)
        (folder / part / "all.json").write_text(json.dumps(body))
    return folder


def test_only_published_test_sets_and_those_of_others_are_public(
    tmp_path: pathlib.Path,
) -> None:
    assert digits().public_test and not table().public_test
    more = {"a": np.zeros(2), "b": np.zeros(2), "ill": np.arange(2)}
    assert table(test=more).public_test
    assert not sources.load("npz", tiny_files.write_npz(tmp_path)).public_test
    by_writer = {"train": ["a", "b"], "test": ["c"]}
    by_example = {"train": ["a", "b"], "test": ["b"]}
    for users, public in ((by_writer, True), (by_example, False)):
        folder = leaf_of(tmp_path / f"leaf {public}", users)
        assert leaf.load_femnist(folder).public_test is public
    assert not leaf.stream_femnist(folder).public_test
    for public in (True, False):
        source = leaf.stream_femnist(folder)._replace(public_test=public)
        store = writer.write_store(tmp_path / f"store {public}", source)
        assert store.public_test is public
    assert not TableSettings().test_path
