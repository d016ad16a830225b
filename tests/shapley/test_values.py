"""Shapley values against their definition, then METHODS' numbers."""

import itertools
import math

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis.extra.numpy import arrays

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
    lambda n: arrays(np.float32, 2**n, elements=st.floats(0, 1, width=32))
)


@hypothesis.settings(max_examples=40, deadline=None, derandomize=True)
@hypothesis.given(games)
def test_the_matrix_product_equals_the_average_over_all_orders(game: np.ndarray):
    """From which efficiency, symmetry, the dummy axiom and linearity follow."""
    np.testing.assert_allclose(
        shapley.exact_shapley(jnp.asarray(game)), by_permutations(game), atol=2e-6
    )


@pytest.mark.parametrize("size", [0, 1, 3, 12, 2048])
def test_a_table_that_is_no_game_of_one_to_ten_attributes_is_refused(size: int):
    with pytest.raises(ValueError, match="must be 2\\*\\*N"):
        shapley.exact_shapley(jnp.zeros((size,)))
    assert shapley.exact_shapley(jnp.ones(1024)).shape == (10,)


DTYPES = (bool, np.int8, np.uint8, np.int64, np.float16, np.float32, np.float64)
ROUNDOFF = {np.float16: 4e-3, np.float32: 2e-6}  # of others, NumPy's float64


@pytest.mark.hole
@pytest.mark.parametrize("of_jax", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_game_of_any_numbers_has_its_values_in_floats(dtype: type, of_jax: bool):
    """Whole numbers are not divided as such, and float64 keeps its digits."""
    game = np.random.default_rng(1).integers(0, 2 if dtype is bool else 90, 8)
    if dtype is np.float64:
        game = game + np.linspace(0, 1e-9, 8)
    game = game.astype(dtype)
    right = by_permutations(game.astype(float))
    ratio = right[1] / right.sum()
    given = jnp.asarray(game) if of_jax else game
    found = shapley.exact_shapley(given)
    floats = (np.float16, np.float32) + (() if of_jax else (np.float64,))
    kept: type = dtype if dtype in floats else (np.float32 if of_jax else np.float64)
    assert found.dtype == kept and isinstance(found, jax.Array) == of_jax
    off = 100 * ROUNDOFF.get(kept, 1e-17)
    np.testing.assert_allclose(found, right, atol=off)
    told = shapley.contribution_ratio_with_flags(found, 1, clip=False)
    assert told.ratio.dtype == kept and not told.was_degenerate
    np.testing.assert_allclose(told.ratio, ratio, rtol=10 * off)
    of_list = shapley.exact_shapley(game.tolist())
    np.testing.assert_allclose(of_list, right, atol=1e-13)
    whole = [4, 1, 3]
    number = jnp.asarray(whole) if of_jax else np.asarray(whole)
    assert shapley.contribution_ratio(number, 0) == pytest.approx(0.5)


@pytest.mark.hole
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_worth_of_any_numbers_is_sampled_in_floats(dtype: type):
    """Of a game whose first player destroys all worth: −1, 0, 0, whatever the order."""

    def worth(coalition: jax.Array) -> jax.Array:
        return (~coalition[0]).astype(jax.dtypes.canonicalize_dtype(dtype))

    found = shapley.sampled_shapley(worth, 3, num_permutations=5, key=jax.random.key(0))
    np.testing.assert_array_equal(found.values, [-1, 0, 0])
    np.testing.assert_array_equal(found.standard_errors, 0)


METHODS = [  # docs/methods.md, section 1; bits p, a, b
    ([0, 0.3, 0.5, 0.6], [0.2, 0.4], 1 / 3),
    ([0.45, 0.3, 0.5, 0.6], None, -0.166667),
    ([0.59, 0.3, 0.5, 0.6], None, -9.5),
    ([0, 0.1, 0.7, 0.5], None, -0.1),  # a harmful private attribute
    (
        [0, 0.3, 0.5, 0.6, 0.4, 0.55, 0.65, 0.7],
        [0.158333, 0.308333, 0.233333],
        0.226190,
    ),
    ([0, 0.8], [0.8], 1),  # a single attribute is all private
]


@pytest.mark.parametrize(("game", "values", "ratio"), METHODS)
def test_values_and_ratios_are_those_of_methods(
    game: list[float], values: list[float] | None, ratio: float
):
    found = shapley.exact_shapley(jnp.asarray(game))
    if values is not None:
        np.testing.assert_allclose(found, values, atol=1e-6)
    raw = shapley.contribution_ratio(found, 0, clip=False)
    np.testing.assert_allclose(raw, ratio, rtol=2e-5)
    assert shapley.contribution_ratio(found, 0) == np.clip(np.float32(raw), 0, 1)


@pytest.mark.parametrize(
    ("values", "report"),  # R, whether it was clipped, whether it is degenerate
    [
        ([0.8, -0.2], (1, True, False)),
        ([-0.2, 0.8], (0, True, False)),
        ([0.4, 0.0], (1, False, False)),
        ([0.0, 0.4], (0, False, False)),
        ([-0.3, 0.3], (1, False, True)),
        *(([bad, 0.3], (1, False, True)) for bad in (math.nan, math.inf, -math.inf)),
    ],
)
def test_a_ratio_is_clipped_at_both_ends_and_one_where_shares_mean_nothing(
    values: list[float], report: tuple[float, bool, bool]
):
    many = jnp.asarray([[0.1, 0.3], values])
    found = shapley.contribution_ratio_with_flags(many, 0)
    assert [leaf[1] for leaf in found] == list(report)
    np.testing.assert_allclose([leaf[0] for leaf in found], [0.25, False, False])


def test_a_private_id_out_of_range_is_refused():
    with pytest.raises(ValueError, match="private"):
        shapley.contribution_ratio(jnp.ones((3,)), 3)


def test_sampled_values_have_the_error_that_they_tell() -> None:
    """Over 500 keys: unbiased, efficient, and spread as the standard error says."""
    game = jax.random.uniform(jax.random.key(3), (32,))

    def utility(coalition: jax.Array) -> jax.Array:
        return game[jnp.sum(jnp.where(coalition, 2 ** jnp.arange(5), 0))]

    def estimate(key: jax.Array) -> shapley.SampledValues:
        return shapley.sampled_shapley(utility, 5, num_permutations=4, key=key)

    found = jax.vmap(estimate)(jax.random.split(jax.random.key(4), 500))
    values, errors = map(np.asarray, found)
    exact = np.asarray(shapley.exact_shapley(game))
    assert np.all(np.abs(values.mean(0) - exact) < 4 * values.std(0) / np.sqrt(500))
    np.testing.assert_allclose(values.sum(1), game[-1] - game[0], atol=1e-5)
    np.testing.assert_allclose(np.sqrt((errors**2).mean(0)), values.std(0), rtol=0.15)


def test_a_design_of_more_than_ten_has_at_most_256_coalitions() -> None:
    """The other refusals of estimators: tests/test_refusals.py."""
    for number, attributes in ((0, 5), (257, 11)):
        asked = shapley.ShapleySettings(shapley="gp", shapley_trainings=number)
        with pytest.raises(ValueError, match="at least 1 with gp, and at most 256"):
            shapley.check_settings(asked, attributes)
    shapley.check_settings(shapley.ShapleySettings(shapley="gp"), 64)
