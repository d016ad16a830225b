"""The scores of a round: of the private classes and of the worst served clients."""

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.algorithm import round_score


def test_a_tenth_of_the_clients_rounded_up_is_the_worst_tenth() -> None:
    by_class = jnp.asarray([0.5, 0.9, 0.1])
    held = jnp.asarray([[4.0, 0.0, 0.0]] * 10 + [[0.0, 3.0, 1.0]])  # two are a tenth
    clients = [0.5] * 10 + [0.75 * 0.9 + 0.25 * 0.1]
    worst = round_score.worst_tenth(by_class, held)
    np.testing.assert_allclose(worst, np.sort(clients)[:2].mean(), rtol=1e-6)


def test_a_class_without_test_examples_counts_for_nobody() -> None:
    by_class = jnp.asarray([0.5, jnp.nan, 1.0])
    held = jnp.asarray([[1.0, 5.0, 3.0], [0.0, 2.0, 0.0]])
    found = round_score.mean_over_classes(by_class, held)
    np.testing.assert_allclose(found, [0.875, np.nan])
