"""Shapley values: axioms against an independent reference, then METHODS' numbers."""

import itertools
import math
from collections.abc import Callable

import hypothesis
import hypothesis.extra.numpy
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax import shapley


def by_permutations(utilities: np.ndarray) -> np.ndarray:
    """The definition, order by order, in float64."""
    n = len(utilities).bit_length() - 1
    values = np.zeros(n)
    orders = list(itertools.permutations(range(n)))
    for order in orders:
        mask = 0
        for a in order:
            values[a] += utilities[mask | 1 << a] - utilities[mask]
            mask |= 1 << a
    return values / len(orders)


games = st.integers(1, 6).flatmap(
    lambda n: hypothesis.extra.numpy.arrays(
        np.float32, 2**n, elements=st.floats(0, 1, width=32)
    )
)
quick = hypothesis.settings(max_examples=40, deadline=None, derandomize=True)


@quick
@hypothesis.given(games)
def test_the_matrix_product_equals_the_average_over_all_orders(game: np.ndarray):
    np.testing.assert_allclose(
        shapley.exact_shapley(jnp.asarray(game)), by_permutations(game), atol=2e-6
    )


@quick
@hypothesis.given(games)
def test_efficiency_values_sum_to_what_all_add_to_none(game: np.ndarray):
    total = jnp.sum(shapley.exact_shapley(jnp.asarray(game)))
    np.testing.assert_allclose(total, game[-1] - game[0], atol=2e-6)


@quick
@hypothesis.given(games, st.data())
def test_symmetry_renaming_attributes_renames_their_values(game: np.ndarray, data):
    n = len(game).bit_length() - 1
    names = data.draw(st.permutations(range(n)))
    renamed = np.zeros_like(game)
    for mask, utility in enumerate(game):
        renamed[sum(1 << names[a] for a in range(n) if mask >> a & 1)] = utility
    values = np.asarray(shapley.exact_shapley(jnp.asarray(game)))
    moved = np.asarray(shapley.exact_shapley(jnp.asarray(renamed)))
    np.testing.assert_allclose(moved[list(names)], values, atol=2e-6)


@quick
@hypothesis.given(games, st.data())
def test_dummy_an_attribute_that_adds_a_constant_is_worth_it(game: np.ndarray, data):
    n = len(game).bit_length() - 1
    dummy = data.draw(st.integers(0, n - 1))
    masks = np.arange(len(game))
    flat = game[masks & ~(1 << dummy)] + np.float32(0.25) * (masks >> dummy & 1)
    values = shapley.exact_shapley(jnp.asarray(flat, jnp.float32))
    np.testing.assert_allclose(values[dummy], 0.25, atol=2e-6)


@quick
@hypothesis.given(games, st.floats(-2, 2, width=32))
def test_linearity_in_the_game(game: np.ndarray, factor: float):
    other = game[::-1].copy()
    mixed = shapley.exact_shapley(jnp.asarray(np.float32(factor) * game + other))
    apart = np.float32(factor) * shapley.exact_shapley(jnp.asarray(game))
    apart = apart + shapley.exact_shapley(jnp.asarray(other))
    np.testing.assert_allclose(mixed, apart, atol=1e-5)


def test_batches_of_games_and_jit_agree_with_one_by_one():
    games = jax.random.uniform(jax.random.key(0), (3, 2, 8))
    together = jax.jit(shapley.exact_shapley)(games)
    alone = [[shapley.exact_shapley(g) for g in row] for row in games]
    np.testing.assert_allclose(together, np.asarray(alone), atol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 3, 12, 2048])
def test_a_table_that_is_no_game_of_one_to_ten_attributes_is_refused(size: int):
    with pytest.raises(ValueError, match="must be 2\\*\\*N"):
        shapley.exact_shapley(jnp.zeros((size,)))


@pytest.mark.parametrize(
    ("empty", "ratio"), [(0.0, 1 / 3), (0.45, -0.166667), (0.59, -9.5)]
)
def test_two_attributes_as_in_methods_section_1(empty: float, ratio: float):
    values = shapley.exact_shapley(jnp.asarray([empty, 0.3, 0.5, 0.6]))
    if empty == 0:
        np.testing.assert_allclose(values, [0.2, 0.4], atol=1e-6)
    raw = shapley.contribution_ratio(values, 0, clip=False)
    np.testing.assert_allclose(raw, ratio, rtol=2e-5)
    clipped = shapley.contribution_ratio_with_flags(values, 0)
    assert clipped.ratio == np.clip(np.float32(raw), 0, 1)
    assert bool(clipped.was_clipped) == (empty > 0)


def test_a_harmful_private_attribute_has_a_negative_ratio():
    values = shapley.exact_shapley(jnp.asarray([0.0, 0.1, 0.7, 0.5]))
    raw = shapley.contribution_ratio(values, 0, clip=False)
    np.testing.assert_allclose(raw, -0.1, rtol=1e-5)
    assert shapley.contribution_ratio(values, 0) == 0


def test_three_attributes_as_in_methods_section_1():
    game = [0.0, 0.3, 0.5, 0.6, 0.4, 0.55, 0.65, 0.7]  # bits: p, a, b
    values = shapley.exact_shapley(jnp.asarray(game))
    np.testing.assert_allclose(values, [0.158333, 0.308333, 0.233333], atol=1e-6)
    ratio = shapley.contribution_ratio(values, 0)
    np.testing.assert_allclose(ratio, 0.226190, atol=1e-6)


@pytest.mark.parametrize(
    ("values", "ratio", "was_clipped"),
    [
        ([0.8, -0.2], 1.0, True),
        ([-0.2, 0.8], 0.0, True),
        ([0.4, 0.0], 1.0, False),
        ([0.0, 0.4], 0.0, False),
    ],
)
def test_a_ratio_is_clipped_at_both_ends_and_the_ends_themselves_are_not(
    values: list[float], ratio: float, was_clipped: bool
):
    report = shapley.contribution_ratio_with_flags(jnp.asarray(values), 0)
    assert report.ratio == ratio and bool(report.was_clipped) == was_clipped


@pytest.mark.parametrize("spoilt", [math.nan, math.inf, -math.inf])
def test_values_of_a_model_that_diverged_give_ratio_one(spoilt: float):
    report = shapley.contribution_ratio_with_flags(jnp.asarray([spoilt, 0.3]), 0)
    assert report.ratio == 1 and report.was_degenerate and not report.was_clipped


def test_values_that_cancel_give_ratio_one_and_are_counted_as_degenerate_only():
    report = shapley.contribution_ratio_with_flags(jnp.asarray([-0.3, 0.3]), 0)
    assert report.ratio == 1 and report.was_degenerate and not report.was_clipped


def test_a_single_attribute_is_all_private():
    values = shapley.exact_shapley(jnp.asarray([0.0, 0.8]))
    assert shapley.contribution_ratio(values, 0) == 1


def test_a_private_id_out_of_range_is_refused():
    with pytest.raises(ValueError, match="private"):
        shapley.contribution_ratio(jnp.ones((3,)), 3)


def test_sampled_values_converge_and_each_order_is_efficient():
    game = jax.random.uniform(jax.random.key(1), (16,))

    def estimate(permutations: int) -> jax.Array:
        return shapley.sampled_shapley(
            _utility(game, 4), 4, num_permutations=permutations, key=jax.random.key(2)
        ).values

    for permutations in (1, 4000):
        total = jnp.sum(estimate(permutations))
        np.testing.assert_allclose(total, game[-1] - game[0], atol=1e-5)
    np.testing.assert_allclose(estimate(4000), shapley.exact_shapley(game), atol=0.03)


@pytest.mark.parametrize(("attributes", "permutations"), [(0, 1), (2, 0)])
def test_sampling_needs_an_attribute_and_an_order(attributes: int, permutations: int):
    with pytest.raises(ValueError, match="must be >= 1"):
        shapley.sampled_shapley(
            lambda c: jnp.sum(c.astype(jnp.float32)),
            attributes,
            num_permutations=permutations,
            key=jax.random.key(0),
        )


def test_orders_gone_through_both_ways_have_the_error_that_they_tell() -> None:
    """Over 500 keys: unbiased, efficient, and spread as the standard error says."""
    game = jax.random.uniform(jax.random.key(3), (32,))

    def estimate(key: jax.Array) -> shapley.SampledValues:
        return shapley.sampled_shapley(
            _utility(game, 5), 5, num_permutations=4, key=key, both_ways=True
        )

    found = jax.vmap(estimate)(jax.random.split(jax.random.key(4), 500))
    values, errors = map(np.asarray, found)
    exact = np.asarray(shapley.exact_shapley(game))
    assert np.all(np.abs(values.mean(0) - exact) < 4 * values.std(0) / np.sqrt(500))
    np.testing.assert_allclose(values.sum(1), game[-1] - game[0], atol=1e-5)
    np.testing.assert_allclose(np.sqrt((errors**2).mean(0)), values.std(0), rtol=0.15)


def test_exact_values_reach_ten_attributes() -> None:
    """A unanimity game's worth is shared by its members: {1, 4, 9}."""
    masks = np.arange(1024)
    game = ((masks & 0b1000010010) == 0b1000010010).astype(np.float32)
    expected = np.zeros(10)
    expected[[1, 4, 9]] = 1 / 3
    np.testing.assert_allclose(
        shapley.exact_shapley(jnp.asarray(game)), expected, atol=1e-6
    )


def test_an_estimator_that_does_not_fit_is_refused_in_one_line() -> None:
    for changes, attributes, message in (
        ({}, 11, "at most 10 with shapley=exact"),
        ({"shapley": "additive"}, 65, "at most 64, got 65: merge attributes"),
        ({"shapley": "additive", "shapley_trainings": 3}, 5, "must be even"),
        ({"shapley": "gp", "shapley_trainings": 0}, 5, "at least 1"),
        ({"shapley": "gp", "shapley_trainings": 257}, 11, "at most 256 where"),
    ):
        with pytest.raises(ValueError, match=message):
            shapley.check_settings(shapley.ShapleySettings(**changes), attributes)
    for name in ("additive", "gp"):
        shapley.check_settings(shapley.ShapleySettings(shapley=name), 64)


def _utility(table: list[float] | jax.Array, num_attributes: int) -> Callable:
    powers = 2 ** jnp.arange(num_attributes)
    values = jnp.asarray(table)
    return lambda coalition: values[jnp.sum(jnp.where(coalition, powers, 0))]


def test_ratios_of_many_clients_are_each_their_own() -> None:
    values = jnp.asarray([[0.1, 0.3], [0.4, -0.2], [0.2, -0.2]])
    found = shapley.contribution_ratio_with_flags(values, 1)
    np.testing.assert_allclose(found.ratio, [0.75, 0.0, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(found.was_clipped, [False, True, False])
    np.testing.assert_array_equal(found.was_degenerate, [False, False, True])
    raw = shapley.contribution_ratio(values, 1, clip=False)
    np.testing.assert_allclose(raw, [0.75, -1.0, 1.0], rtol=1e-6)


def test_one_attribute_and_one_order_are_enough_to_draw() -> None:
    for number, orders in ((1, 1), (1, 3), (3, 1)):
        found = shapley.random_orders(number, orders, jax.random.key(0))
        rows = np.sort(np.asarray(found), axis=1)
        np.testing.assert_array_equal(rows, np.tile(np.arange(number), (orders, 1)))
