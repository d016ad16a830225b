"""A tree's norm and finiteness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.tree import is_finite, l2_norm


def test_the_norm_of_a_million_numbers_errs_by_rounding_alone() -> None:
    leaves = [jax.random.normal(jax.random.key(i), (1000, 500)) for i in range(2)]
    tree = {"wide": leaves[0], "narrow": leaves[1].astype(jnp.bfloat16)}
    exact = np.sqrt(sum(np.sum(np.asarray(x, np.float64) ** 2) for x in tree.values()))
    assert abs(float(jax.jit(l2_norm)(tree)) / exact - 1) < 1e-6


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_one_bad_number_makes_a_tree_not_finite(bad: float) -> None:
    tree = {"a": jnp.ones((50,)), "b": jnp.ones((3, 4))}
    assert is_finite(tree)
    assert not is_finite(tree | {"b": tree["b"].at[1, 2].set(bad)})
