"""The bound of the private query."""

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.mechanisms.private_query import query_bound


def test_the_bound_is_f_c_over_p_and_that_of_one_record_without_any():
    for held in (4, jnp.int32(4), 4.0):
        found = query_bound(1.5, held, factor=2.0)
        np.testing.assert_allclose(found, 2.0 * 1.5 / 4, rtol=1e-6)
        assert found.dtype == jnp.float32 and found.shape == ()
    assert query_bound(1.5, 4, factor=1.0) == 0.375
    for none_or_one in (0, 1):
        assert query_bound(1.5, none_or_one, factor=1.0) == 1.5
    bounds = query_bound(jnp.asarray([1.5, 3.0]), jnp.asarray([3, 2]), factor=1.0)
    np.testing.assert_allclose(bounds, [0.5, 1.5], rtol=1e-6)
