"""The 2x2 max-pool against XLA's own window."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import quick_jit, window_pool

from fedsvp_jax.models.pooling import max_pool_2x2


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    height=st.integers(2, 9),
    width=st.integers(2, 9),
    levels=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_pool_and_its_gradient_equal_reduce_window_ties_included(
    height, width, levels, seed
):
    key = jax.random.key(seed)
    x = jax.random.randint(key, (2, height, width, 3), 0, levels).astype(jnp.float32)

    @functools.partial(quick_jit, static_argnums=0)
    def value_and_gradient(pool, x):
        y, pull = jax.vjp(pool, x)
        return y, pull(jnp.arange(y.size, dtype=jnp.float32).reshape(y.shape))[0]

    for ours, theirs in zip(
        value_and_gradient(max_pool_2x2, x),
        value_and_gradient(window_pool, x),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
