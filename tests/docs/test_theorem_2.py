"""What experiments/studies/theorem_2 says of FedSVA (sec. 3.3), on quadratics."""

import numpy as np
import pytest

pytestmark = pytest.mark.hole


def gaps(
    curvature: np.ndarray, *, rate: float, cohort: int, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """F = ½Σ a_j w_j² from w = 0, an upload's N_c² being 1: measured, and the bound.

    The mean gap of 2,000 runs after each round, and the page's bound for E = 1.
    """
    rng = np.random.default_rng(0)
    size, (rho, smooth) = len(curvature), (curvature.min(), curvature.max())
    w, measured = np.zeros((2000, size)), []
    for _ in range(rounds):
        noise = rng.normal(size=w.shape) * (size * cohort) ** -0.5
        w = w - rate * curvature * w + noise
        measured.append(np.mean(0.5 * np.square(w) @ curvature))
    kept = max(1 - rate * rho, rate * smooth - 1)
    decayed = 1 - kept ** (2 * np.arange(1, rounds + 1))
    return np.asarray(measured), smooth / 2 * decayed / (1 - kept**2) / cohort


def test_theorem_2_as_printed_is_no_bound():
    """F = ½‖w‖², E = K = 1: it tends to L·K²·N_c² = 1, the gap to 25.13."""
    measured, bound = gaps(np.ones(1), rate=0.01, cohort=1, rounds=1000)
    limit = 1 / (2 * (1 - 0.99**2))
    np.testing.assert_allclose(limit, 25.13, atol=0.005)
    np.testing.assert_allclose(measured[-200:].mean(), limit, rtol=0.05)
    np.testing.assert_allclose(measured[99::100], bound[99::100], rtol=0.15)
    assert np.all(measured[20:] > 1)


@pytest.mark.parametrize("rate", [0.1, 0.7, 0.95])
def test_the_corrected_bound_holds_for_quadratics_of_any_curvature(rate: float):
    """At rate .95 ηL − 1 = .9 is the slower contraction."""
    curvature = np.asarray([0.5, 1.0, 2.0])
    measured, bound = gaps(curvature, rate=rate, cohort=4, rounds=200)
    assert np.all(measured < bound)
    assert measured[-50:].mean() > bound[-1] / 10
