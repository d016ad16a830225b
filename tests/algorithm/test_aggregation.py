"""FedAvg's weights and sum."""

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.algorithm import aggregation


def test_weighted_mean_of_two_clients_is_the_one_of_methods_section_4() -> None:
    weights = aggregation.client_weights(
        jnp.asarray([100, 300]), jnp.asarray([True, True]), uniform=False
    )
    uploads = jnp.asarray([[1.0, 2.0], [3.0, 6.0]])
    mean = jnp.sum(jax.vmap(aggregation.weighted)(uploads, weights), axis=0)
    np.testing.assert_allclose(mean, [2.5, 5.0])


def test_uniform_weights_ignore_sizes_and_empty_places_weigh_nothing() -> None:
    weights = aggregation.client_weights(
        jnp.asarray([100, 300, 500]), jnp.asarray([True, True, False]), uniform=True
    )
    np.testing.assert_allclose(weights, [0.5, 0.5, 0.0])


def test_an_empty_cohort_weighs_nothing_at_all() -> None:
    weights = aggregation.client_weights(
        jnp.asarray([0, 0]), jnp.asarray([False, False]), uniform=False
    )
    np.testing.assert_array_equal(weights, [0.0, 0.0])


def test_a_client_without_weight_adds_nothing_even_when_it_diverged() -> None:
    upload = jnp.asarray([jnp.nan, jnp.inf])
    np.testing.assert_array_equal(
        aggregation.weighted(upload, jnp.float32(0.0)), [0.0, 0.0]
    )


def test_a_single_client_with_one_example_weighs_one() -> None:
    weights = aggregation.client_weights(
        jnp.asarray([1, 7]), jnp.asarray([True, False]), uniform=False
    )
    np.testing.assert_array_equal(weights, [1.0, 0.0])
