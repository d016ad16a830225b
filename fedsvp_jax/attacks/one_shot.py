"""One-shot estimation of ε: how far the model moved along random directions.

Each canary client pushes the model along a random direction of its own. Seen from a
direction that was drawn independently, the model's movement has a cosine that is
almost N(0, 1/d), whatever the other clients did. For a canary that took part, the mean
of the cosines is larger. The estimate is the ε of these two Gaussians.

It is an estimate and no bound: it assumes that the cosines are Gaussian and that these
canaries are as bad as any client. What else moves the model (honest clients, other
canaries) shortens the cosines and lowers the estimate.

Source: Andrew et al. 2023, One-shot Empirical Privacy Estimation for Federated Learning
(arXiv 2302.03098), Algorithms 1 and 2. They fit the standard deviation of the cosines
too; here it is 1/√d, its limit for Gaussian noise in many dimensions, since the error
of a fitted one is what counts with a hundred canaries.
"""

import math
from typing import NamedTuple

import numpy as np

from fedsvp_jax.attacks.epsilon_bounds import gaussian_epsilon


class Estimate(NamedTuple):
    """ε, and the two ends of a 95 % interval."""

    epsilon: float
    low: float
    high: float


def estimate(cosines: np.ndarray, dimension: int, delta: float) -> Estimate:
    """ε at δ of N(0, 1/d) against N(m, 1/d), m the mean of the cosines.

    The interval is that of m, by its standard error.

    Args:
      cosines: (n,) between the direction of each canary that took part and the
        movement, n ≥ 2.
      dimension: d, the number of parameters.
      delta: δ in (0, 1).

    Raises:
      ValueError: there are fewer than two canaries.
    """
    if len(cosines) < 2:
        raise ValueError(f"at least 2 canaries must take part, got {len(cosines)}")
    scaled = np.asarray(cosines, np.float64) * math.sqrt(dimension)
    mean, error = scaled.mean(), scaled.std(ddof=1) / math.sqrt(len(scaled))
    places = (mean, mean - 1.96 * error, mean + 1.96 * error)
    return Estimate(*(gaussian_epsilon(mu, delta) for mu in places))
