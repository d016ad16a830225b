"""The process on what a blend lacks: by hand, and the laws that values keep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax import shapley
from fedsvp_jax.shapley import residual_process
from fedsvp_jax.shapley.coalitions import coalition_rows

KEY = jax.random.key(3)


def prior(number: int) -> np.ndarray:
    """The covariance by its formula, conditioned one known coalition at a time."""
    rows = coalition_rows(range(2**number), number)
    kernel = np.exp(-(rows[:, None] != rows[None]).sum(-1) / (0.5 * number))
    known = [0, 2**number - 1, *(1 << a for a in range(number))]
    for mask in known:
        kernel = kernel - np.outer(kernel[mask], kernel[mask]) / kernel[mask, mask]
        kernel[mask], kernel[:, mask] = 0, 0
    left = np.setdiff1d(range(2**number), known)
    return np.asarray(kernel / kernel[left, left].mean())


@pytest.mark.parametrize(("number", "asked"), [(4, 6), (11, 30)])
def test_values_and_deviations_are_the_posteriors_by_hand(
    number: int, asked: int
) -> None:
    design = residual_process.design(number, asked)
    masks = design.rows[number] @ 2 ** np.arange(number)
    assert len(set(masks.tolist())) == asked
    kernel, values = prior(number), shapley.values.weights(number).T
    inner = np.linalg.inv(kernel[np.ix_(masks, masks)] + 0.01 * np.eye(asked))
    weights = values @ kernel[:, masks] @ inner
    np.testing.assert_allclose(design.weights[number], weights, atol=1e-5)
    spread = values @ (kernel - kernel[:, masks] @ inner @ kernel[masks]) @ values.T
    np.testing.assert_allclose(
        design.deviations[number], np.sqrt(spread.diagonal()), atol=1e-5
    )


@pytest.mark.parametrize("number", [4, 6, 13])
def test_the_coalitions_that_tell_most_first_lack_one_attribute(number: int) -> None:
    """And the values are then the blend's less c (D_a - mean D)."""
    design = residual_process.design(number, number)
    rows, weights = design.rows[number], design.weights[number]
    assert sorted(rows.sum(1)) == [number - 1] * number
    of_lacking = weights[np.argmin(rows, axis=1), np.arange(number)]
    np.testing.assert_allclose(of_lacking, of_lacking[0], rtol=1e-3)
    np.testing.assert_allclose(weights.sum(0), 0, atol=1e-5)


def test_one_design_is_no_worse_than_any_other_single_coalition() -> None:
    number = 4
    kernel, values = prior(number), shapley.values.weights(number).T

    def trace(mask: int) -> float:
        column = kernel[:, mask]
        left = kernel - np.outer(column, column) / (column[mask] + 0.01)
        return float(np.trace(values @ left @ values.T))

    best = residual_process.design(number, 1).rows[number, 0] @ 2 ** np.arange(number)
    assert trace(best) <= min(map(trace, range(16))) * (1 + 1e-6)


def test_absent_attributes_are_worth_nothing_and_values_sum_to_zero() -> None:
    held = jnp.asarray([True, False, True, True, True])
    rows = residual_process.rows(KEY, held, 7)
    np.testing.assert_array_equal(np.asarray(rows)[:, 1], False)
    asked = np.asarray(rows).any(1)
    lacking = jnp.where(asked, jax.random.normal(KEY, (7,)), 0)
    found = residual_process.correction(KEY, held, lacking, 0.0)
    assert found.values[1] == 0 and found.standard_errors[1] == 0
    np.testing.assert_allclose(found.values.sum(), 0, atol=1e-6)
    two = jnp.asarray([True, False, True, False, False])
    assert not residual_process.rows(KEY, two, 7).any()
    known = residual_process.correction(KEY, two, jnp.zeros(7), 0.1)
    np.testing.assert_array_equal(known.values, 0)
    np.testing.assert_array_equal(known.standard_errors, 0)


def test_of_all_coalitions_the_values_are_nearly_exact() -> None:
    number = 4
    held, asked = jnp.ones(number, bool), 2**number - number - 2
    rows = np.asarray(residual_process.rows(KEY, held, asked))
    lacking, masks = np.zeros(2**number, np.float32), rows @ 2 ** np.arange(number)
    lacking[masks] = np.random.default_rng(0).normal(size=asked)
    found = residual_process.correction(KEY, held, jnp.asarray(lacking[masks]), 0.0)
    exact = shapley.exact_shapley(jnp.asarray(lacking))
    np.testing.assert_allclose(found.values, exact, atol=0.05)
