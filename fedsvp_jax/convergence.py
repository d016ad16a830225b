"""FedSVA's convergence bound, for problems whose constants are known.

Source: FedSVA (arXiv 2503.12958v2), sec. 3.3, Theorem 2 and its proof sketch.
"""

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.structs import Array


def convergence_bound(
    rounds: Array,
    *,
    smoothness: float,
    convexity: float,
    learning_rate: float,
    local_epochs: int,
    gradient_square: float,
    noise_square: float,
    cohort_size: int,
    initial_distance_square: float,
) -> Array:
    """Bound on E[F(w̃^t)] − F*, shape of `rounds`, float32.

        L·U^t·E‖w⁰ − w*‖² + (14/ρ²)(1 − U)·W + 4η²·W + L·K²·N_c²
        U = 1 − ηρ, W = L(E − 1)²G_c²

    As printed: (14/ρ²)(1 − U) = 14η/ρ. The last term is loose: averaging K
    independent noises leaves about L·N_c²/K, K³ below it.

    Args:
      rounds: t ≥ 0.
      smoothness: L. convexity: ρ. learning_rate: η in (0, 1/ρ).
      local_epochs: E, here the local steps of one round.
      gradient_square: G_c², bound on E‖stochastic gradient‖².
      noise_square: N_c², bound on E‖noise of one upload‖² (d·σ²).
      cohort_size: K. initial_distance_square: E‖w⁰ − w*‖².

    Raises:
      ValueError: a constant is not > 0, ρ > L, η ≥ 1/ρ, or a square is < 0.
    """
    for name, value in (
        ("smoothness", smoothness),
        ("convexity", convexity),
        ("learning_rate", learning_rate),
    ):
        if not value > 0:
            raise ValueError(f"{name} must be > 0, got {value}")
    for name, value in (
        ("gradient_square", gradient_square),
        ("noise_square", noise_square),
        ("initial_distance_square", initial_distance_square),
    ):
        if not value >= 0:
            raise ValueError(f"{name} must be >= 0, got {value}")
    for name, count in (("local_epochs", local_epochs), ("cohort_size", cohort_size)):
        if count < 1:
            raise ValueError(f"{name} must be >= 1, got {count}")
    if convexity > smoothness:
        raise ValueError(
            f"convexity must be <= smoothness = {smoothness}, got {convexity}"
        )
    if learning_rate * convexity >= 1:
        raise ValueError(
            f"learning_rate must be < 1/convexity = {1 / convexity}, "
            f"got {learning_rate}"
        )
    kept = 1.0 - learning_rate * convexity
    drift = smoothness * (local_epochs - 1) ** 2 * gradient_square
    floor = (14.0 / convexity**2 * (1.0 - kept) + 4.0 * learning_rate**2) * drift
    floor += smoothness * cohort_size**2 * noise_square
    t = np.asarray(rounds, np.float64)
    decayed = smoothness * initial_distance_square * kept**t
    return jnp.asarray(decayed + floor, jnp.float32)
