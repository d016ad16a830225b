"""Arrays and comparisons for the tests of layers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedsvp_jax.structs import Array

# Laws hold at any optimisation level; this one compiles in half of the time. The
# models' own shapes are tested as they run.
quick_jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0}
)


def normal(seed: int, *shape: int) -> Array:
    """N(0, 1) in float32."""
    return jax.random.normal(jax.random.key(seed), shape, jnp.float32)


def assert_close(ours: Array, reference: Array, scale: float = 1.0) -> None:
    """Equal within float32 rounding of sums whose terms are of order `scale`."""
    np.testing.assert_allclose(ours, reference, rtol=2e-5, atol=2e-5 * scale)


def window_pool(x: Array) -> Array:
    """XLA's own 2x2 max-pool."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
