"""Distances between image sets: METHODS.md's numbers, laws, and samples."""

import numpy as np
import pytest
import scipy.linalg

from fedsvp_jax.attacks.scores import frechet_distance

RNG = np.random.default_rng(0)
ONE_SET = RNG.normal(size=(400, 8))


def sample(mean: list, cov: list) -> np.ndarray:
    """2d points with exactly this mean and this covariance."""
    steps = np.linalg.cholesky(np.asarray(cov)).T * np.sqrt(len(mean) - 0.5)
    return np.asarray(mean) + np.concatenate([steps, -steps])


@pytest.mark.parametrize(
    ("mean_a", "cov_a", "mean_b", "cov_b", "distance"),
    [
        ([0, 0], np.eye(2), [1, 2], 4 * np.eye(2), 7.0),
        ([1, 0], [[2, 0.5], [0.5, 1]], [0, 0], np.diag([1.0, 3.0]), 1.808853),
        ([1, 2], [[2, 0.5], [0.5, 1]], [1, 2], [[2, 0.5], [0.5, 1]], 0.0),
    ],
)
def test_the_frechet_distances_of_methods(
    mean_a: list, cov_a: list, mean_b: list, cov_b: list, distance: float
) -> None:
    samples = [sample(mean_a, cov_a), sample(mean_b, cov_b)]
    np.testing.assert_allclose(np.cov(samples[0].T), cov_a)
    assert frechet_distance(*samples) == pytest.approx(distance, abs=5e-7)
    assert frechet_distance(*samples[::-1]) == pytest.approx(distance, abs=5e-7)


def test_the_frechet_distance_needs_no_rank_and_agrees_with_the_root_of_a_matrix():
    few = RNG.normal(size=(5, 20))
    assert frechet_distance(few, few) == pytest.approx(0, abs=1e-6)
    other = ONE_SET @ RNG.normal(size=(8, 8)) + 1
    covs = np.cov(ONE_SET.T), np.cov(other.T)
    expected = np.trace(sum(covs) - 2 * np.real(scipy.linalg.sqrtm(covs[0] @ covs[1])))
    expected += np.square(ONE_SET.mean(0) - other.mean(0)).sum()
    assert frechet_distance(ONE_SET, other) == pytest.approx(expected)
