"""What the rows of a run say of estimated values: the axioms, and the same upload."""

import pathlib

import numpy as np
import pytest
from small_runs import digits, read_rows, small

from fedsvp_jax import run
from fedsvp_jax.federation import federated_data


def test_estimates_keep_the_axioms_and_leave_the_upload_as_it_is(
    tmp_path: pathlib.Path,
) -> None:
    """Estimators' own laws are in test_estimators.py and tests/estimators."""
    # Of 7 clients one of the cohort at least holds nothing private.
    shared = {"num_attributes": 4, "num_hbc_clients": 5, "num_rounds": 1}
    exact = small(**shared)
    additive = small(**shared, shapley="additive", shapley_trainings=2)
    for name, config in (("exact", exact), ("additive", additive)):
        run.train(config, tmp_path / name, dataset=digits())
    known, rows = (
        read_rows(tmp_path / name / "clients.jsonl") for name in ("exact", "additive")
    )
    made = federated_data.federate([exact], digits())
    held = []
    for row, sure in zip(rows, known, strict=True):
        count = int(made.split.num_train[0, row["client"]])
        mine = np.asarray(made.split.train[0, row["client"]])[:count]
        held.append(np.bincount(made.game.attributes.ids[mine], minlength=4) > 0)
        names = ("shapley_values", "shapley_errors", "shapley_margins")
        values, errors, margins = (np.asarray(row[name]) for name in names)
        assert not np.any([values[~held[-1]], errors[~held[-1]], margins[~held[-1]]])
        assert np.all(margins >= errors) and np.all(errors[held[-1]] > 0)
        assert values.sum() == pytest.approx(sum(sure["shapley_values"]), abs=1e-5)
        assert row["utilities"] is None and "shapley_errors" not in sure
        for name in ("update_l2", "epsilon"):
            assert row[name] == sure[name]
        if not row["degenerate"] and held[-1][0]:
            share = errors[0] / abs(values.sum())
            assert row["ratio_error"] == pytest.approx(share, rel=1e-3)
    assert not np.all(held)
