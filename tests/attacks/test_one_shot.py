"""The one-shot estimate finds the ε of a known Gaussian mechanism."""

import numpy as np
import pytest

from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.attacks import one_shot

DELTA = 1e-5
DIMENSION = 4000


@pytest.mark.parametrize("mu", [1.0, 3.0])
def test_a_gaussian_sum_of_canaries_is_estimated_within_its_error(mu: float):
    """Andrew et al. 2023, Algorithm 1: unit directions, summed, with noise 1/mu."""
    truth = composed_epsilon("gdp", mu**2, DELTA)
    covered = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        directions = rng.normal(size=(40, DIMENSION))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        total = directions.sum(0) + rng.normal(size=DIMENSION) / mu
        cosines = directions @ total / np.linalg.norm(total)
        found = one_shot.estimate(cosines, DIMENSION, DELTA)
        assert found.low < found.epsilon < found.high
        covered.append(found.low <= truth <= found.high)
    # The canaries shorten one another's cosines by sqrt(1 + 40·mu²/d).
    assert np.mean(covered) >= 0.8


def test_canaries_that_left_no_trace_cost_nothing():
    rng = np.random.default_rng(0)
    found = one_shot.estimate(rng.normal(-0.1, 0.01, 50), DIMENSION, DELTA)
    assert found == (0.0, 0.0, 0.0)
