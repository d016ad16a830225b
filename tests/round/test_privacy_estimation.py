"""Privacy estimation: which coalitions train, and what a run says of them."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick_training import quick_training  # noqa: F401, a fixture
from small_runs import digits, read_rows, small

from fedsvp_jax import run, shapley
from fedsvp_jax.core import prng
from fedsvp_jax.core.prng import Address
from fedsvp_jax.core.structs import Rows, Weights
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.federation import Program, build, federated_data
from fedsvp_jax.models import evaluation
from fedsvp_jax.round import local_training, privacy_estimation
from fedsvp_jax.round.state import Estimation, Task
from fedsvp_jax.shapley import coalitions, estimators
from fedsvp_jax.shapley.coalitions import Group, coalition_groups
from fedsvp_jax.shapley.estimators import Values


def test_the_full_coalition_is_trained_last_and_no_other_twice() -> None:
    rng = np.random.default_rng(0)
    for num_attributes in range(1, 7):
        full = 2**num_attributes - 1
        own = rng.integers(0, 30, num_attributes)
        own[0] += 1
        masks = range(1, full + 1)
        rows = coalitions.coalition_rows(masks, num_attributes)
        sizes = dict(zip(masks, (rows @ own).tolist(), strict=True))
        groups = coalition_groups(sizes, 20)
        trained = [mask for _, masks, _ in groups for mask in masks]
        assert trained[-1] == full
        assert sorted(trained) == [m for m in sizes if sizes[m] > 0]
        for batch_size, masks, _ in groups:
            assert {min(20, sizes[mask]) for mask in masks} == {batch_size}


def test_coalition_sizes_are_the_most_that_any_client_holds() -> None:
    made = federated_data.federate([small(num_attributes=3)], digits())
    ids = made.counts.attributes.ids[np.asarray(made.split.train[0])]
    held = np.arange(ids.shape[1]) < np.asarray(made.split.num_train[0])[:, None]
    for mask, size in made.counts.coalition_sizes.items():
        assert size == np.sum(held & (mask >> ids & 1 == 1), axis=1).max()


UNEQUAL = {"partition": "dirichlet", "num_hbc_clients": 0}  # rows are padded
INITIAL = {"empty_utility": "initial", "utility": "loss"}


def estimated(made: Program, at: Address, **changes: Any) -> tuple[Weights, Estimation]:
    """Of client 1, at the initial model."""
    cell, plan = cell_of(made.cells, 0), made.plan
    estimation = plan.estimation._replace(**changes)
    plan = dataclasses.replace(plan, estimation=estimation)
    weights = Weights(*made.model.init(jax.random.key(0), made.data.example))
    start: Any = SimpleNamespace(weights=weights)
    task = Task(
        *(made.model, plan, cell, made.mechanism, start, made.data.examples),
        *(cell_of(cell.split, 1), at),
    )
    return privacy_estimation.estimate_contribution(task)


@pytest.mark.usefixtures("quick_training")
@pytest.mark.parametrize(
    "changes", [{}, INITIAL, {"clipping": "per_example"} | UNEQUAL], ids=str
)
def test_an_estimation_is_the_shapley_value_of_independent_trainings(
    changes: dict[str, Any],
) -> None:
    """Which have no noise and shuffled batches, whatever the local training has."""
    made = build([small(num_attributes=2, **changes)], digits())
    cell, plan, examples = cell_of(made.cells, 0), made.plan, made.data.examples
    held, at = cell_of(cell.split, 1), Address(jax.random.key(3), 1)
    start = Weights(*made.model.init(jax.random.key(0), made.data.example))
    trained, found = jax.jit(lambda: estimated(made, at, private_attribute=1))()
    worth = jax.jit(
        evaluation.Validation(
            *(made.model, examples, held.validation, held.num_validation),
            batch_size=plan.estimation.validation_batch_size,
            lane_axes=(),
            kind=plan.estimation.utility,
        ).utility
    )
    sizes = {mask: g.batch_size for g in plan.estimation.groups for mask in g.masks}
    real = np.arange(len(held.train)) < int(held.num_train)
    assert real.all() != ("partition" in changes)
    attributes = np.asarray(examples.attributes)[np.asarray(held.train)]
    broadcast = float(worth(start))
    utilities = [broadcast if "empty_utility" in changes else 0.0]
    for mask in (1, 2, 3):
        member = real & (mask >> attributes & 1 == 1)
        silent = {"gradient": "clipped_mean", "batch_size": sizes[mask]}
        alone = local_training.local_update(
            made.model,
            plan.recipe._replace(**silent),
            cell.rates,
            start,
            Rows(examples, held.train, jnp.asarray(member)),
            local_training.Draws(at.stream(prng.Stream.LOCAL_TRAINING)),
        )
        found_worth = float(worth(Weights(alone.params, start.stats)))
        utilities.append(found_worth if member.any() else utilities[0])
    expected = Weights(alone.params, start.stats)
    chex.assert_trees_all_close(trained, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.utilities, utilities, atol=1e-6)
    assert any(abs(utility - broadcast) > 0.05 for utility in utilities[1:])
    values = shapley.exact_shapley(jnp.asarray(utilities, jnp.float32))
    np.testing.assert_allclose(found.shapley_values, values, atol=1e-6)
    report = shapley.contribution_ratio_with_flags(values, 1)
    np.testing.assert_allclose(found[2:5], report, atol=1e-5)


def test_the_error_of_r_is_that_of_the_private_value_over_the_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = build([small(num_attributes=3)], digits())
    at = Address(prng.root_key(0), 4)

    def of(found: Values) -> Estimation:
        stand_in = mock.Mock(return_value=(Weights({}, {}), found))
        monkeypatch.setitem(estimators.ESTIMATORS, "additive", stand_in)
        asked = {"private_attribute": 2, "estimator": "additive", "num_drawn": 5}
        estimation = estimated(made, at, **asked)[1]
        game, key, number = stand_in.call_args.args
        assert key == at.stream(prng.Stream.COALITIONS) and number == 5
        assert game.plan.num_attributes == 3
        recipe = game.train(jnp.ones(3, bool), Group(8, (1,), 3))
        assert (recipe.batch_size, recipe.most_steps) == (8, 3)
        return estimation

    monkeypatch.setattr(local_training, "local_update", lambda *told, **_: told[1])
    errors, margins = jnp.asarray([0.5, 0.0, 0.2]), jnp.asarray([1.0, 0.0, 0.6])
    found = Values(jnp.asarray([-0.3, 0.0, -0.1]), None, errors, margins)
    estimation = of(found)
    np.testing.assert_allclose(estimation.contribution_ratio, 0.25, rtol=1e-6)
    np.testing.assert_allclose(estimation.ratio_error, 0.2 / 0.4, rtol=1e-6)
    np.testing.assert_allclose(estimation.ratio_margin, 0.6 / 0.4, rtol=1e-6)
    assert estimation.shapley_errors is errors and estimation.utilities is None
    assert estimation.shapley_margins is margins
    cancelled = of(found._replace(values=jnp.asarray([-0.1, 0.0, 0.1])))
    assert cancelled.degenerate and cancelled.contribution_ratio == 1
    assert np.isnan(cancelled.ratio_error) and np.isnan(cancelled.ratio_margin)
    without = of(found._replace(standard_errors=None, margins=None))
    assert without.ratio_error is None and without.shapley_errors is None


def test_estimates_keep_the_axioms_and_leave_the_upload_as_it_is(
    tmp_path: Path,
) -> None:
    """Of a run's rows; estimators' own laws are in test_estimators.py."""
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
    split, held = cell_of(made.split, 0), []
    for row, sure in zip(rows, known, strict=True):
        mine = split.train[row["client"]][: int(split.num_train[row["client"]])]
        held.append(np.bincount(made.counts.attributes.ids[mine], minlength=4) > 0)
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
