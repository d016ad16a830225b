"""Values from pairs of complementary coalitions, against independent references."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax import shapley
from fedsvp_jax.shapley import paired
from fedsvp_jax.shapley.coalitions import coalition_rows

Utility = Callable[[np.ndarray], np.ndarray]  # (P, N) bool -> (P,)

# As one program each, as in a run; operation by operation takes longer.
draw_pairs = jax.jit(paired.draw_pairs, static_argnums=2)
correction = jax.jit(paired.correction)
margin = jax.jit(paired.margin, static_argnums=1)
draw_for_keys = jax.jit(
    jax.vmap(paired.draw_pairs, in_axes=(0, None, None)), static_argnums=2
)
correct_each = jax.jit(jax.vmap(paired.correction, in_axes=(0, None, 0)))


def exact_values(utility: Utility, number: int) -> np.ndarray:
    """Which tests/shapley/test_values.py compares with the average over all orders."""
    rows = coalition_rows(range(2**number), number)
    return np.asarray(utility(rows) @ shapley.values.weights(number))


def table_game(held: np.ndarray, seed: int) -> Utility:
    """A random game in which the attributes that are not held change nothing."""
    table = np.random.default_rng(seed).normal(size=2 ** len(held)).astype(np.float32)

    def utility(coalitions: np.ndarray) -> np.ndarray:
        return table[(coalitions & held) @ 2 ** np.arange(len(held))]

    return utility


def estimates(
    utility: Utility, held: np.ndarray, num_pairs: int, seeds: int
) -> tuple[np.ndarray, np.ndarray]:
    """(seeds, N) estimated values and (seeds,) standard errors."""
    keys = jax.random.split(jax.random.key(num_pairs), seeds)
    pairs = draw_for_keys(keys, held, num_pairs)
    with_, without = (utility(np.asarray(side)) for side in pairs)
    found = correct_each(pairs, held, jnp.asarray(with_ - without, jnp.float32))
    whole = utility(held[None]) - utility(np.zeros((1, len(held)), bool))
    values = np.asarray(found.values, np.float64) + held * whole / held.sum()
    return values, np.asarray(found.standard_error)


HELD = {
    "all of five": np.ones(5, bool),
    "all of six": np.ones(6, bool),
    "four of seven": np.asarray([1, 0, 1, 1, 0, 1, 0], bool),
}


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("num_pairs", [1, 4, 11])
def test_the_mean_over_2000_seeds_is_the_exact_value_within_its_error(
    name: str, num_pairs: int
) -> None:
    held = HELD[name]
    utility = table_game(held, seed=3)
    values, errors = estimates(utility, held, num_pairs, seeds=2000)
    exact = exact_values(utility, len(held))
    spread = np.maximum(values.std(axis=0), 1e-6) / math.sqrt(2000)
    assert np.all(np.abs(values.mean(axis=0) - exact) < 4 * spread)
    np.testing.assert_array_equal(values[:, ~held], 0)
    np.testing.assert_allclose(values.sum(axis=1), exact.sum(), atol=1e-4)
    margins = np.asarray(margin(jnp.asarray(errors), num_pairs, held))
    covered = np.abs(values - exact) <= margins[:, None]
    assert covered[:, held].mean() >= 0.93
    # The error is not only wide enough: it is the estimate's own, within a half.
    within = np.sqrt(((values - exact)[:, held] ** 2).mean())
    assert within <= 1.2 * np.sqrt((errors**2).mean())
    if num_pairs == 1:
        assert within >= 0.8 * np.sqrt((errors**2).mean())


def test_all_pairs_of_three_attributes_give_the_exact_values() -> None:
    held = np.ones(3, bool)
    utility = table_game(held, seed=1)
    values, _ = estimates(utility, held, 3, seeds=20)
    exact = exact_values(utility, 3)
    np.testing.assert_allclose(values, np.tile(exact, (20, 1)), atol=1e-5)


def test_unanimity_games_of_64_attributes_have_their_closed_form() -> None:
    """U(S) = sum of w_T over the T within S; each T gives w_T/|T| to its members."""
    rng = np.random.default_rng(0)
    members = np.asarray([rng.permutation(64) < size for size in (1, 2, 3, 5, 8, 13)])
    worths = rng.normal(size=len(members)).astype(np.float32)
    exact = (worths / members.sum(axis=1)) @ members

    def utility(coalitions: np.ndarray) -> np.ndarray:
        missing = (~coalitions).astype(np.float32) @ members.T.astype(np.float32)
        return (missing == 0) @ worths

    held = np.ones(64, bool)
    values, errors = estimates(utility, held, 16, seeds=400)
    spread = values.std(axis=0) / math.sqrt(400)
    assert np.all(np.abs(values.mean(axis=0) - exact) < 4.5 * spread)
    for num_pairs in (16, 3):
        values, errors = estimates(utility, held, num_pairs, seeds=400)
        margins = np.asarray(margin(jnp.asarray(errors), num_pairs, held))
        assert (np.abs(values - exact) <= margins[:, None]).mean() >= 0.93


@pytest.mark.parametrize("held", [[False, False], [True, False], [True] * 4])
def test_where_nothing_is_drawn_nothing_is_corrected(held: list[bool]) -> None:
    """Of fewer than two attributes, or in no pair; then there is no error either."""
    number = 0 if all(held) else 3
    pairs = draw_pairs(jax.random.key(0), jnp.asarray(held), number)
    assert not np.any(pairs.coalitions) and not np.any(pairs.complements)
    found = correction(pairs, jnp.asarray(held), jnp.zeros(number))
    np.testing.assert_array_equal(found.values, 0)
    np.testing.assert_array_equal(found.standard_error, 0 if number else np.nan)
    within = margin(jnp.float32(0.1), number, jnp.asarray(held))
    assert np.isnan(within) == (number == 0)


def test_the_margin_is_students_t_with_more_degrees_for_more_contrasts() -> None:
    """The 97.5 % quantiles of t with 1, 3 and 10 degrees of freedom, from a table."""
    told = {(1, 5): 12.706, (2, 3): 3.182}
    told |= dict.fromkeys([(4, 4), (10, 2), (10, 1)], 2.228)
    for (pairs, num_held), quantile in told.items():
        held = jnp.arange(7) < num_held
        found = margin(jnp.float32(1), pairs, held)
        assert float(found) == pytest.approx(quantile, abs=1e-3)


def test_the_resolution_keeps_equal_utilities_from_passing_as_proof() -> None:
    held = jnp.ones(5, bool)
    pairs = draw_pairs(jax.random.key(0), held, 3)
    found = correction(pairs, held, jnp.zeros(3), resolution=0.1)
    larger = sum(math.sqrt(1 / t + 1 / (5 - t)) for t in (3, 4))
    assert float(found.standard_error) == pytest.approx(
        larger * 0.1 / math.sqrt(5) / 3, rel=1e-5
    )
