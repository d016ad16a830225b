"""The Shapley axioms in a real run, as the rows of its clients tell them."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from small_runs import (
    digits,
    read_rows,
    shared_rounds,  # noqa: F401, a fixture
    small,
)

from fedsvp_jax import run
from fedsvp_jax.federation import federated_data

pytestmark = [
    pytest.mark.across("the axioms in the rows of a run"),
    pytest.mark.usefixtures("shared_rounds"),
]


def client_rows(folder: pathlib.Path, **changes: Any) -> list[dict[str, Any]]:
    run.train(small(num_rounds=1, **changes), folder, dataset=digits())
    return read_rows(folder / "clients.jsonl")


ESTIMATES = ("shapley_values", "shapley_errors", "shapley_margins")


@pytest.mark.parametrize(
    "changes",
    [  # test_estimators.py holds each estimator's own laws
        {"shapley": "additive", "shapley_trainings": 2},
        pytest.param(
            {"shapley": "gp", "shapley_trainings": 4, "utility": "loss"},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["additive", "gp"],
)
def test_estimates_keep_the_axioms_and_leave_the_upload_as_it_is(
    changes: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    """Efficiency, the dummy axiom to the bit, and the local model of an exact run."""
    shared = {
        "num_attributes": 4,
        "contribution_release": "laplace",
        "num_hbc_clients": 5,  # of 7: at least one of the cohort holds nothing private
    }
    exact = client_rows(tmp_path / "exact", **shared)
    rows = client_rows(tmp_path / "run", **shared, **changes)
    made = federated_data.federate([small(**shared)], digits())
    rows_of, counts = made.split.train[0], np.asarray(made.split.num_train[0])
    dummies = 0
    for row, known in zip(rows, exact, strict=True):
        mine = np.asarray(rows_of[row["client"]])[: counts[row["client"]]]
        held = np.bincount(made.game.attributes.ids[mine], minlength=4) > 0
        dummies += int((~held).sum())
        for name in ESTIMATES:
            np.testing.assert_array_equal(np.asarray(row[name])[~held], 0)
        np.testing.assert_array_equal(np.asarray(known["shapley_values"])[~held], 0)
        whole = known["utilities"][-1] - known["utilities"][0]
        assert sum(known["shapley_values"]) == pytest.approx(whole, abs=1e-5)
        assert row["utilities"] is None
        assert row["update_l2"] == known["update_l2"]
        assert row["epsilon"] == known["epsilon"]
        if "utility" not in changes:
            whole = sum(known["shapley_values"])
            assert sum(row["shapley_values"]) == pytest.approx(whole, abs=1e-5)
        margins, errors = (np.asarray(row[name])[held] for name in ESTIMATES[:0:-1])
        assert np.all(margins > errors) and np.all(errors > 0)
        if "utility" not in changes:
            # All utilities of one and of all attributes are known: a near miss.
            near = np.abs(np.subtract(row["shapley_values"], known["shapley_values"]))
            assert np.all(near[held] <= margins)
        if not row["degenerate"]:
            share = errors[0] / abs(sum(row["shapley_values"]))
            assert not held[0] or row["ratio_error"] == pytest.approx(share, rel=1e-3)
    assert dummies > 0
    spent = [
        json.loads((tmp_path / name / "summary.json").read_text())["epsilon_spent"]
        for name in ("exact", "run")
    ]
    assert spent[0]["basic"] == spent[1]["basic"]
