"""The arena: recorded games, estimators of others, and the tables made of them."""

import sys
import types
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from commands import ROOT
from small_runs import digits

from experiments import kept_rows
from experiments.shapley import arena, games, intervals, ridge, rivals, tables
from fedsvp_jax import shapley
from fedsvp_jax.algorithm.coalitions import coalition_rows


def additive_game(number: int = 5) -> rivals.Known:
    """Every coalition is worth the sum of its members'."""
    worth = coalition_rows(range(2**number), number) @ np.arange(1.0, number + 1)
    return rivals.Known(worth, shapley.weights(number))


@pytest.mark.parametrize(
    "play", [rivals.regression_adjusted, rivals.eig], ids=lambda play: play.__name__
)
def test_others_rules_are_near_on_a_game_without_interactions(play: Any) -> None:
    found = play(additive_game(), 30, 0)
    np.testing.assert_allclose(found, [1, 2, 3, 4, 5], atol=0.5)


def test_regression_adjusted_is_unbiased() -> None:
    worth = np.random.default_rng(0).normal(size=32)
    game = rivals.Known(worth, shapley.weights(5))
    draws = np.asarray([rivals.regression_adjusted(game, 12, s) for s in range(3000)])
    error = draws.std(0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(0) - worth @ game.shapley) < 4 * error)


@pytest.mark.parametrize("kind", games.KINDS)
def test_examples_are_dealt_as_the_kind_says(kind: str) -> None:
    draw = np.random.default_rng(1)
    features, labels = draw.normal(size=(100, 3)), draw.integers(0, 10, 100)
    rows, attributes, wanted = games.dealt(kind, 5, features, labels, 3)
    counts = np.bincount(attributes, minlength=5)
    assert counts.min() >= 1 and len(rows) == len(attributes) == len(wanted)
    kept = wanted == labels[rows]
    assert kept[attributes < 4].all() and kept.all() == (kind != "harmful")
    if kind == "rare":
        assert counts[0] <= 3 < counts[1:].min()
    if kind == "duplicate":
        np.testing.assert_array_equal(rows[attributes == 3], rows[attributes == 4])
    else:
        assert len(set(rows.tolist())) == len(rows)
    if kind == "grouped":
        assert np.all(np.diff(labels[rows]) >= 0)


def test_the_blend_is_exact_for_single_attributes_and_all() -> None:
    logits = np.random.default_rng(0).normal(size=(4, 6, 3))  # of three and of all
    rows = coalition_rows(range(8), 3)
    mixed = games.blended(logits, np.asarray([2, 5, 1]), rows)
    np.testing.assert_allclose(mixed[[1, 2, 4, 7]], logits)


def test_games_that_only_judge_are_apart_from_those_that_chose() -> None:
    assert not (games.HELD_OUT | ridge.HELD_OUT) & games.DEVELOPMENT
    rows = [{"game": f"digits {seed} 0 equal 5"} for seed in (0, 1)]
    assert tables.held_out(rows) == rows[1:]


def test_a_ridge_game_solves_every_coalition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "PLAYERS", 4)
    monkeypatch.setattr(ridge, "CHUNK", 8)
    data = digits()
    game = next(ridge.games(data, 7))
    worth = game["worth"]["loss"]
    assert worth.shape == game["blend"]["accuracy"].shape == (16,)
    assert worth[0] == -1 and worth[-1] > worth[[1, 2, 4, 8]].max() > -1
    exact = [0b1, 0b10, 0b100, 0b1000, 0b1111]
    np.testing.assert_allclose(game["blend"]["loss"][exact], worth[exact])


def test_kept_games_are_played() -> None:
    kept = ROOT / "docs" / "results" / "shapley" / "digits.jsonl"
    game = next(one for one in kept_rows.read(kept) if one["players"] == 5)
    assert len(game["worth"]["loss"]) == 2**5
    found = arena.play(game, "loss", rivals=False)
    assert found["gp:3N"].value_error < found["equal:0"].value_error
    assert found["gp:N"].covered is not None and found["equal:0"].covered is None
    lines = tables.summary([tables.row(game, "loss", n, r) for n, r in found.items()])
    assert {line["trainings"] for line in lines} == {"0", "5", "10", "15", "20"}


def test_a_table_compares_errors_on_the_same_games() -> None:
    played = [
        {"game": f"g {i} 5", "utility": u, "estimator": name, "value_error": e * i}
        for i in (1, 2, 3)
        for u in ("accuracy", "loss")
        for name, e in (("gp:N", 1.0), ("equal:0", 2.0 + i / 10))
    ]
    (line,) = tables.compared(played, [("gp:N", "equal:0")])
    cell = line["N ≤ 10, later, 3 games"]
    assert cell.startswith("0.45") and cell.endswith("wins")


def test_our_values_of_the_games_that_shapiq_ships_are_the_formulas() -> None:
    for seed in range(3):
        game = intervals.drawn(6, 20, seed)
        mine = shapley.exact_shapley(jnp.asarray(game.worth, jnp.float32))
        np.testing.assert_allclose(mine, game.values, atol=1e-6)
        known = [0, 63, *(1 << a for a in range(6))]
        near = intervals.near(game.worth)
        np.testing.assert_allclose(near[known], game.worth[known], atol=1e-12)
    (row,) = kept_rows.read(ROOT / "docs" / intervals.FILE)
    assert max(row["differences"].values()) < 1e-6


def test_intervals_of_the_draws_hold_as_often_as_they_say_on_shapiqs_games() -> None:
    held = intervals.within(intervals.sums(300))
    assert 0.93 <= held["additive:2N"] <= 0.97 and 0.93 <= held["additive:4N"] <= 0.97


def test_others_can_play_our_games(monkeypatch: pytest.MonkeyPatch) -> None:
    class Base:
        def __init__(self, number: int, normalization_value: float) -> None:
            self.told = number, normalization_value

    monkeypatch.setitem(sys.modules, "shapiq", types.SimpleNamespace(Game=Base))
    game = shapley.as_shapiq_game(np.asarray([0.5, 1, 2, 4]))
    assert game.told == (2, 0.5)
    asked = np.asarray([[False, True], [True, True]])
    np.testing.assert_array_equal(game.value_function(asked), [2, 4])


def test_results_are_of_the_draws() -> None:
    draws = [(np.asarray([0.5, 0.5]), np.asarray([0.2, 0.2]))] * 2
    found = arena._result(np.asarray([0.4, 0.8]), draws, empty=0.0)
    assert found.covered == 0.5 and found.margin == pytest.approx(0.2)
    assert found.value_error == pytest.approx(np.sqrt((0.01 + 0.09) / 2))
    assert found.ratio_error == pytest.approx(0.5 - 1 / 3, abs=1e-6)
