"""Privacy estimation: which coalitions train, and the Shapley axioms in a real run."""

import dataclasses
import json
import pathlib
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick_training import quick_training  # noqa: F401, a fixture
from small_runs import (
    digits,
    shared_rounds,  # noqa: F401, a fixture
    small,
)

from fedsvp_jax import run, shapley
from fedsvp_jax.algorithm import (
    estimators,
    evaluation,
    local_training,
    privacy_estimation,
)
from fedsvp_jax.algorithm.estimators import Game, Values
from fedsvp_jax.algorithm.privacy_estimation import (
    EstimationPlan,
    coalition_groups,
    coalition_members,
)
from fedsvp_jax.federation import build, federated_data
from fedsvp_jax.structs import Examples, Split
from fedsvp_jax.tree import cell_of

pytestmark = pytest.mark.usefixtures("shared_rounds")


def test_coalitions_are_grouped_by_the_batch_that_they_fill() -> None:
    sizes = {0b01: 3, 0b10: 40, 0b11: 43}
    assert coalition_groups(sizes, 10) == ((3, (0b01,)), (10, (0b10, 0b11)))


def test_the_full_coalition_is_trained_last_and_no_other_twice() -> None:
    rng = np.random.default_rng(0)
    for num_attributes in range(1, 7):
        full = 2**num_attributes - 1
        own = rng.integers(0, 30, num_attributes)
        own[0] += 1
        sizes = {
            mask: int(sum(own[a] for a in range(num_attributes) if mask >> a & 1))
            for mask in range(1, full + 1)
        }
        groups = coalition_groups(sizes, 20)
        trained = [mask for _, masks in groups for mask in masks]
        assert trained[-1] == full
        assert sorted(trained) == [m for m in sizes if sizes[m] > 0]
        assert len(trained) - 1 <= 2**num_attributes - 2
        for batch_size, masks in groups:
            assert {min(20, sizes[mask]) for mask in masks} == {batch_size}


def test_a_coalition_that_nobody_holds_is_not_trained() -> None:
    assert coalition_groups({1: 0, 2: 8, 3: 8}, 5) == ((5, (2, 3)),)


def test_members_are_the_held_rows_of_the_coalitions_attributes() -> None:
    attributes = jnp.asarray([0, 1, 2, 1, 0], jnp.int32)
    valid = jnp.asarray([True, True, True, True, False])
    for mask, expected in {
        0b001: [1, 0, 0, 0, 0],
        0b010: [0, 1, 0, 1, 0],
        0b101: [1, 0, 1, 0, 0],
        0b111: [1, 1, 1, 1, 0],
    }.items():
        coalition = jnp.asarray([mask >> a & 1 == 1 for a in range(3)])
        found = coalition_members(attributes, coalition, valid)
        np.testing.assert_array_equal(found, np.asarray(expected, bool))


def client_rows(folder: pathlib.Path, **changes: Any) -> list[dict[str, Any]]:
    run.train(small(num_rounds=1, **changes), folder, dataset=digits())
    lines = (folder / "clients.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("num_attributes", [2, 6])
def test_shapley_values_share_out_the_full_coalitions_utility(
    num_attributes: int, tmp_path: pathlib.Path
) -> None:
    """Efficiency: the values sum to U(all) - U(empty); R is read off them."""
    rows = client_rows(tmp_path / "run", num_attributes=num_attributes)
    assert len(rows) == 3
    for row in rows:
        utilities, values = row["utilities"], row["shapley_values"]
        assert len(utilities) == 2**num_attributes and len(values) == num_attributes
        assert utilities[0] == 0 and min(utilities) >= 0 and max(utilities) <= 1
        assert sum(values) == pytest.approx(utilities[-1], abs=1e-5)
        assert 0 <= row["contribution_ratio"] <= 1
        assert row["released_ratio"] == row["contribution_ratio"]
        if row["degenerate"]:
            assert row["contribution_ratio"] == 1
        else:
            share = values[0] / sum(values)
            assert row["contribution_ratio"] == pytest.approx(
                min(max(share, 0), 1), abs=1e-4
            )
            assert row["clipped"] == (not 0 <= share <= 1)


def test_the_empty_coalition_may_be_worth_what_the_broadcast_model_is(
    tmp_path: pathlib.Path,
) -> None:
    rows = client_rows(tmp_path / "run", empty_utility="initial")
    assert any(row["utilities"][0] > 0 for row in rows)
    for row in rows:
        assert sum(row["shapley_values"]) == pytest.approx(
            row["utilities"][-1] - row["utilities"][0], abs=1e-5
        )


def test_coalition_sizes_are_the_most_that_any_client_holds() -> None:
    config = small(num_attributes=3)
    made = federated_data.federate([config], digits())
    rows, counts = np.asarray(made.split.train[0]), np.asarray(made.split.num_train[0])
    for mask, size in made.coalition_sizes.items():
        held = [
            np.sum((mask >> made.attributes.ids[row[:count]]) & 1)
            for row, count in zip(rows, counts, strict=True)
        ]
        assert size == max(held)


ESTIMATES = ("shapley_values", "shapley_errors", "shapley_margins")


@pytest.mark.parametrize(
    "changes",
    [
        {"shapley": "additive", "shapley_trainings": 2},
        {"shapley": "paired", "shapley_trainings": 4, "utility": "loss"},
        {"shapley": "leave_one_out", "shapley_trainings": 3},
    ],
    ids=["additive", "paired", "leave_one_out"],
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
        held = np.bincount(made.attributes.ids[mine], minlength=4) > 0
        dummies += int((~held).sum())
        for name in ESTIMATES:
            np.testing.assert_array_equal(np.asarray(row[name])[~held], 0)
        assert row["utilities"] is None
        assert row["update_l2"] == known["update_l2"]
        assert row["epsilon"] == known["epsilon"]
        if "utility" not in changes:
            whole = sum(known["shapley_values"])
            assert sum(row["shapley_values"]) == pytest.approx(whole, abs=1e-5)
        if changes["shapley"] == "leave_one_out":  # no interval, however many are held
            assert row["ratio_error"] is None or not held[0]
            continue
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


def test_two_attributes_are_known_exactly_once_each_is_trained_alone(
    tmp_path: pathlib.Path,
) -> None:
    exact = client_rows(tmp_path / "exact")
    rows = client_rows(tmp_path / "run", shapley="additive", shapley_trainings=2)
    for row, known in zip(rows, exact, strict=True):
        np.testing.assert_allclose(
            row["shapley_values"], known["shapley_values"], atol=1e-6
        )
        assert row["shapley_errors"] == [0, 0] and row["shapley_margins"] == [0, 0]


def test_sixty_four_attributes_without_a_correction_have_no_error(
    tmp_path: pathlib.Path,
) -> None:
    """Groups of writers, of which a client holds few; no interval is told."""
    writers = dataclasses.replace(
        digits(), train_writers=np.arange(len(digits().train_labels), dtype=np.int32)
    )
    changes = {"attributes": "writer_groups", "num_attributes": 64, "num_rounds": 1}
    run.train(
        small(**changes, shapley="additive", shapley_trainings=0),
        tmp_path / "run",
        dataset=writers,
    )
    lines = (tmp_path / "run" / "clients.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        assert len(row["shapley_values"]) == 64
        held = np.asarray(row["shapley_values"]) != 0
        assert 2 < held.sum() < 64
        assert row["ratio_error"] is None
        errors = np.asarray(row["shapley_errors"], float)
        assert np.isnan(errors).any() and not np.nan_to_num(errors).any()


@pytest.mark.usefixtures("quick_training")
@pytest.mark.parametrize("empty_utility", ["zero", "initial"])
def test_an_estimation_is_the_shapley_value_of_independent_trainings(
    empty_utility: str,
) -> None:
    made = build([small(num_attributes=2, empty_utility=empty_utility)], digits())
    cell, plan, examples = cell_of(made.cells, 0), made.plan, made.data.examples
    held, key = cell_of(cell.split, 1), jax.random.key(3)
    params, stats = made.model.init(jax.random.key(0), made.example)
    *trained, found = jax.jit(
        lambda: privacy_estimation.estimate_contribution(
            made.model,
            plan.recipe,
            cell.rates,
            dataclasses.replace(plan.estimation, private_attribute=1),
            params,
            stats,
            examples,
            held,
            key=key,
            pairs_key=key,
            lane_axes=(),
        )
    )()

    @jax.jit
    def accuracy(params: Any) -> Any:
        return evaluation.Validation(
            made.model,
            examples,
            held.validation,
            held.num_validation,
            batch_size=plan.estimation.validation_batch_size,
            lane_axes=(),
        ).utility(params, stats)

    rows = np.asarray(held.train)
    real = np.arange(len(rows)) < int(held.num_train)
    attributes = np.asarray(examples.attributes)[rows]
    utilities = [float(accuracy(params)) if empty_utility == "initial" else 0.0]
    for mask in (1, 2, 3):
        member = real & np.isin(attributes, [a for a in (0, 1) if mask >> a & 1])
        alone, _ = local_training.local_update(
            made.model,
            plan.recipe,
            cell.rates,
            params,
            stats,
            examples,
            held.train,
            jnp.asarray(member),
            key=key,
            batch_size=dict(
                (m, size) for size, masks in plan.estimation.groups for m in masks
            )[mask],
            lane_axes=(),
        )
        utilities.append(float(accuracy(alone)) if member.any() else utilities[0])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
        trained,
        [alone, stats],
    )
    np.testing.assert_allclose(found.utilities, utilities, atol=1e-6)
    broadcast = float(accuracy(params))
    assert any(abs(utility - broadcast) > 0.05 for utility in utilities[1:])
    values = shapley.exact_shapley(jnp.asarray(utilities, jnp.float32))
    np.testing.assert_allclose(found.shapley_values, values, atol=1e-6)
    report = shapley.contribution_ratio_with_flags(values, 1)
    np.testing.assert_allclose(found.contribution_ratio, report.ratio, atol=1e-5)
    assert bool(found.clipped) == bool(report.was_clipped)
    assert bool(found.degenerate) == bool(report.was_degenerate)


def test_the_steps_of_a_coalition_are_those_of_its_own_examples() -> None:
    made = build([small(num_attributes=2, local_epochs=3)], digits())
    cell, plan, examples = cell_of(made.cells, 0), made.plan, made.data.examples
    held = cell_of(cell.split, 1)
    steps = privacy_estimation.training_steps(
        plan.recipe, plan.estimation, examples, held, pairs_key=jax.random.key(0)
    )
    own = np.asarray(examples.attributes)[held.train[: int(held.num_train)]]
    expected = []
    for size, masks in plan.estimation.groups:
        for mask in masks:
            count = int(np.sum(mask >> own & 1))
            expected.append(3 * (count // size if count >= size else min(count, 1)))
    assert [int(number) for number in steps] == expected


TOLD = {
    "exact": ("exact", ()),
    "additive": ("additive", ("pairs key", 2)),
    "leave_one_out": ("leave_one_out", ("pairs key", 5)),
    "paired": ("complementary", ("pairs key", 2)),
}


def told_estimation(
    monkeypatch: pytest.MonkeyPatch, estimator: str, found: Values, **changes: Any
) -> tuple[Any, Game, Any]:
    """An estimation whose estimator finds these values; its game; the local trainings.

    The client holds rows 0, 1, 2 and 4 of five, of the attributes 2, 0, 2 and 0; the
    last row of its split is padding. The empty coalition's model is worth 3.
    """
    name, given = TOLD[estimator]
    games: list[Game] = []

    def stand_in(game: Game, *told: Any) -> Any:
        assert told == given
        games.append(game)
        return ("params'", "stats'"), found

    trainings = []

    def local_update(*told: Any, **named: Any) -> Any:
        trainings.append((told, named))
        return "trained", "stats"

    monkeypatch.setattr(estimators, name, stand_in)
    monkeypatch.setattr(local_training, "local_update", local_update)
    monkeypatch.setattr(evaluation.Validation, "utility", lambda *told: told[1:])
    examples = Examples(jnp.zeros((5, 1)), jnp.zeros(5), jnp.asarray([2, 0, 2, 1, 0]))
    held = Split(jnp.asarray([0, 1, 2, 4, 3]), jnp.int32(4), "rows", "count")
    plan = EstimationPlan(
        num_attributes=3,
        private_attribute=2,
        groups=((2, (5, 7)),),
        validation_batch_size=6,
        estimator=estimator,
        num_drawn=5,
        utility="loss",
    )
    recipe: Any = SimpleNamespace(batch_size=9)
    given_models: Any = ("model", recipe, "rates")
    *trained, estimation = privacy_estimation.estimate_contribution(
        *given_models,
        dataclasses.replace(plan, **changes),
        "params",
        "stats",
        examples,
        held,
        key="key",
        pairs_key="pairs key",
        lane_axes=("lanes",),
    )
    assert trained == ["params'", "stats'"]
    (game,) = games
    assert game.train(jnp.asarray([True, False, False]), 8) == ("trained", "stats")
    (((*told, member), named),) = trainings
    assert told == ["model", recipe, "rates", "params", "stats", examples, held.train]
    np.testing.assert_array_equal(member, [False, True, False, True, False])
    assert named == {"key": "key", "batch_size": 8, "lane_axes": ("lanes",)}
    return estimation, game, examples


@pytest.mark.parametrize("estimator", TOLD)
def test_the_estimator_is_told_the_clients_game(
    estimator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Values(jnp.asarray([0.2, 0.1, 0.1]), jnp.arange(8.0))
    estimation, game, examples = told_estimation(monkeypatch, estimator, found)
    assert game.num_attributes == 3 and game.private_attribute == 2
    assert game.groups == ((2, (5, 7)),) and game.batch_size == 9
    assert game.start == ("params", "stats") and game.empty == 0
    np.testing.assert_array_equal(game.counts, [2, 0, 2])
    assert game.validation == evaluation.Validation(
        "model",  # type: ignore[arg-type]
        examples,
        "rows",  # type: ignore[arg-type]
        "count",  # type: ignore[arg-type]
        batch_size=6,
        lane_axes=("lanes",),
        kind="loss",
    )
    assert estimation.utilities is found.utilities
    np.testing.assert_allclose(estimation.contribution_ratio, 0.25, rtol=1e-6)
    assert not estimation.clipped and not estimation.degenerate
    assert estimation[5:] == (None, None, None, None)
    _, game, _ = told_estimation(monkeypatch, estimator, found, empty_utility="initial")
    assert game.empty == ("params", "stats")  # what the broadcast model is worth


def test_the_error_of_r_is_that_of_the_private_value_over_the_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors, margins = jnp.asarray([0.5, 0.0, 0.2]), jnp.asarray([1.0, 0.0, 0.6])
    found = Values(jnp.asarray([-0.3, 0.0, -0.1]), None, errors, margins)
    estimation, *_ = told_estimation(monkeypatch, "additive", found)
    np.testing.assert_allclose(estimation.contribution_ratio, 0.25, rtol=1e-6)
    np.testing.assert_allclose(estimation.ratio_error, 0.2 / 0.4, rtol=1e-6)
    np.testing.assert_allclose(estimation.ratio_margin, 0.6 / 0.4, rtol=1e-6)
    assert estimation.shapley_errors is errors and estimation.utilities is None
    assert estimation.shapley_margins is margins
    cancelled = found._replace(values=jnp.asarray([-0.1, 0.0, 0.1]))
    estimation, *_ = told_estimation(monkeypatch, "additive", cancelled)
    assert estimation.degenerate and estimation.contribution_ratio == 1
    assert np.isnan(estimation.ratio_error) and np.isnan(estimation.ratio_margin)
    for lacking in ({"standard_errors": None}, {"margins": None}):
        estimation, *_ = told_estimation(
            monkeypatch, "additive", found._replace(**lacking)
        )
        assert estimation.ratio_error is None and estimation.shapley_errors is None


@pytest.mark.parametrize("estimator", ["additive", "leave_one_out", "paired"])
def test_the_steps_of_drawn_coalitions_are_told_too(estimator: str) -> None:
    attributes = jnp.asarray([0] * 9 + [1] * 4 + [2] * 7 + [3] + [4] * 2)
    examples = Examples(jnp.zeros((23, 1)), jnp.zeros(23), attributes)
    held = Split(jnp.arange(23), jnp.int32(21), None, None)  # nothing of attribute 4
    groups = ((3, (1, 2, 4)), (5, (15, 31)))
    plan = EstimationPlan(5, 1, groups, 1, estimator=estimator, num_drawn=4)
    recipe: Any = SimpleNamespace(batch_size=6, local_epochs=2)
    key = jax.random.key(3)
    steps = privacy_estimation.training_steps(
        recipe, plan, examples, held, pairs_key=key
    )
    counts = np.asarray([9, 4, 7, 1, 0])
    rows = estimators.drawn_coalitions(estimator, key, jnp.asarray(counts > 0), 4, 1)
    drawn = (np.asarray(rows) * counts).sum(axis=1)
    expected = [9 // 3, 4 // 3, 7 // 3, 21 // 5, 21 // 5]
    expected += [n // 6 if n >= 6 else min(n, 1) for n in drawn.tolist()]
    np.testing.assert_array_equal(steps, 2 * np.asarray(expected))
    assert steps.dtype == jnp.int32
