"""FedAvg's weights and sum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.algorithm import aggregation


def test_weighted_mean_of_two_clients_is_the_one_of_methods_section_4() -> None:
    weights = aggregation.client_weights(
        jnp.asarray([100, 300]), jnp.asarray([True, True]), uniform=False
    )
    uploads = jnp.asarray([[1.0, 2.0], [3.0, 6.0]])
    mean = jnp.sum(jax.vmap(aggregation.weighted)(uploads, weights), axis=0)
    np.testing.assert_allclose(mean, [2.5, 5.0])


@pytest.mark.parametrize(
    ("sizes", "valid", "uniform", "expected"),
    [
        ([100, 300, 500], [True, True, False], True, [0.5, 0.5, 0.0]),
        ([0, 0], [False, False], False, [0.0, 0.0]),
        ([1, 7], [True, False], False, [1.0, 0.0]),
    ],
    ids=["uniform, with an empty place", "an empty cohort", "a single client"],
)
def test_weights_sum_to_one_over_those_who_take_part(
    sizes: list[int], valid: list[bool], uniform: bool, expected: list[float]
) -> None:
    weights = aggregation.client_weights(
        jnp.asarray(sizes), jnp.asarray(valid), uniform=uniform
    )
    np.testing.assert_allclose(weights, expected)


def test_a_client_without_weight_adds_nothing_even_when_it_diverged() -> None:
    upload = jnp.asarray([jnp.nan, jnp.inf])
    np.testing.assert_array_equal(
        aggregation.weighted(upload, jnp.float32(0.0)), [0.0, 0.0]
    )
