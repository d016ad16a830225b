"""Distances between image sets: METHODS.md's numbers, laws, and samples."""

import numpy as np
import pytest

from fedsvp_jax.attacks import frechet, frechet_distance, kernel_distance

RNG = np.random.default_rng(0)
ONE_SET = RNG.normal(size=(400, 8))


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
    found = [np.asarray(part) for part in (mean_a, cov_a, mean_b, cov_b)]
    assert frechet_distance(*found) == pytest.approx(distance, abs=5e-7)
    assert frechet_distance(*found[2:], *found[:2]) == pytest.approx(distance, abs=5e-7)
    fit = frechet.gaussian_fit(RNG.normal(size=(5, 20)))  # without full rank
    assert frechet_distance(*fit, *fit) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mean_a": np.zeros(3)}, "of one d"),
        ({"cov_b": np.array([[1.0, 2.0], [2.0, 1.0]])}, "negative eigenvalues"),
        ({"cov_b": np.array([[1.0, 0.5], [0.0, 1.0]])}, "symmetric"),
        ({"mean_b": np.array([np.nan, 0.0])}, "finite"),
    ],
)
def test_what_is_no_gaussian_is_refused(changed: dict, message: str) -> None:
    good = {"mean_a": np.zeros(2), "cov_a": np.eye(2)}
    good |= {"mean_b": np.zeros(2), "cov_b": np.eye(2)}
    with pytest.raises(ValueError, match=message):
        frechet_distance(**(good | changed))


def test_the_kernel_distance_is_the_double_sum_of_its_definition() -> None:
    a, b = ONE_SET[:6], ONE_SET[6:11] + 1

    def mean(x: np.ndarray, y: np.ndarray, *, apart: bool) -> float:
        pairs = ((i, j) for i in range(len(x)) for j in range(len(y)))
        kept = ((i, j) for i, j in pairs if not (apart and i == j))
        return float(np.mean([(x[i] @ y[j] / 8 + 1) ** 3 for i, j in kept]))

    expected = mean(a, a, apart=True) + mean(b, b, apart=True)
    expected -= 2 * mean(a, b, apart=False)
    assert kernel_distance(a, b).distance == pytest.approx(expected)


def test_the_standard_error_is_the_spread_over_samples_that_differ() -> None:
    found = [
        kernel_distance(rng.normal(size=(150, 8)), rng.normal(1, 1, size=(150, 8)))
        for rng in map(np.random.default_rng, range(40))
    ]
    spread = np.std([one.distance for one in found])
    stated = np.mean([one.standard_error for one in found])
    assert stated == pytest.approx(spread, rel=0.35)
    assert min(one.distance / one.standard_error for one in found) > 3


def test_the_nearest_distance_tells_a_copy_from_a_neighbour() -> None:
    real = RNG.uniform(-1, 1, size=(30, 4, 4, 1)).astype(np.float32)
    moved = real[7] + np.float32(0.25)
    found = frechet.nearest_distances(np.stack([real[3], moved]), real)
    np.testing.assert_allclose(found, [0, 0.25], atol=1e-6)
