"""A tree's norm and finiteness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.core.float32 import staged_sum
from fedsvp_jax.core.tree import (
    _in_stages,
    has_finite_sum,
    is_finite,
    l2_norm,
    norms,
)
from fedsvp_jax.devices.target import named_target


def test_the_norm_of_a_million_numbers_errs_by_rounding_alone() -> None:
    leaves = [jax.random.normal(jax.random.key(i), (1000, 500)) for i in range(2)]
    tree = {"wide": leaves[0], "narrow": leaves[1].astype(jnp.bfloat16)}
    exact = np.sqrt(sum(np.sum(np.asarray(x, np.float64) ** 2) for x in tree.values()))
    assert abs(float(jax.jit(l2_norm)(tree)) / exact - 1) < 1e-6


SHAPES = [(), (7,), (5000,), (40_000,), (5, 5, 32, 64), (9000, 3), (2048, 313)]


@pytest.mark.hole
def test_the_norm_of_an_accelerator_is_never_too_small() -> None:
    """A clip trusts it; equal numbers are where plain sums lose the most."""
    drawn = [jax.random.normal(jax.random.key(1), shape) for shape in SHAPES]
    for leaves in (drawn, [jnp.full(shape, 0.3, jnp.float32) for shape in SHAPES]):
        found = float(jax.jit(_in_stages)(leaves))
        exact = np.sqrt(sum(np.sum(np.asarray(x, np.float64) ** 2) for x in leaves))
        assert 0 <= found / exact - 1 < 2**-12


def test_stages_leave_nothing_out_and_count_their_additions() -> None:
    for shape in SHAPES:
        total, height = staged_sum(jnp.ones(shape))
        assert float(total) == np.prod(shape)
        assert np.log2(np.prod(shape)) <= height + 1 and height < 2**13


@pytest.mark.hole
def test_stages_are_for_accelerators_and_trees_for_a_cpu() -> None:
    tree = {"a": jnp.ones((2048, 313))}

    def reduces(platform: str) -> bool:
        with norms(in_stages=named_target(platform).norms_in_stages):
            return "reduce_sum" in str(jax.make_jaxpr(lambda tree: l2_norm(tree))(tree))

    assert [reduces(platform) for platform in ("cpu", "cuda", "tpu")] == [0, 1, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_one_bad_number_makes_a_tree_not_finite(bad: float) -> None:
    tree = {"a": jnp.ones((50,)), "b": jnp.ones((3, 4))}
    assert is_finite(tree)
    assert not is_finite(tree | {"b": tree["b"].at[1, 2].set(bad)})


@pytest.mark.parametrize("in_stages", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_number_makes_a_sum_not_finite(bad: float, in_stages: bool) -> None:
    tree = {"a": jnp.ones((50,)), "b": jnp.ones((3, 4)), "c": None}
    assert has_finite_sum(tree, in_stages=in_stages)
    spoiled = tree | {"b": tree["b"].at[1, 2].set(bad)}
    assert not has_finite_sum(spoiled, in_stages=in_stages)
