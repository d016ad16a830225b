"""FedSVA's Theorem 2 as printed, which is no bound, and a bound for one local step.

Source: FedSVA (arXiv 2503.12958v2), sec. 3.3, Theorem 2 and its proof sketch.
"""

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.structs import Array


def printed_expression(
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
    """Theorem 2's right-hand side, shape of `rounds`, float32. It is **no bound**.

        L·U^t·E‖w⁰ − w*‖² + (14/ρ²)(1 − U)·W + 4η²·W + L·K²·N_c²
        U = 1 − ηρ, W = L(E − 1)²G_c²

    As printed: (14/ρ²)(1 − U) = 14η/ρ. The paper calls it a bound on E[F(w̃^t)] − F*.
    Its last term counts the noise of one round and forgets that of all earlier ones.
    For F = ½‖w‖², L = ρ = 1, η = .01, E = K = 1 and N_c² = 1 it tends to 1, while
    E[F] − F* tends to 1/(2(1 − .99²)) = 25.13. It lies above a run only where its K²,
    which should be 1/K, outweighs this. `one_step_bound` is a bound for E = 1.

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
    _check_problem(
        smoothness=smoothness,
        convexity=convexity,
        learning_rate=learning_rate,
        cohort_size=cohort_size,
        noise_square=noise_square,
        initial_distance_square=initial_distance_square,
    )
    if local_epochs < 1:
        raise ValueError(f"local_epochs must be >= 1, got {local_epochs}")
    if not gradient_square >= 0:
        raise ValueError(f"gradient_square must be >= 0, got {gradient_square}")
    kept = 1.0 - learning_rate * convexity
    drift = smoothness * (local_epochs - 1) ** 2 * gradient_square
    floor = (14.0 / convexity**2 * (1.0 - kept) + 4.0 * learning_rate**2) * drift
    floor += smoothness * cohort_size**2 * noise_square
    t = np.asarray(rounds, np.float64)
    decayed = smoothness * initial_distance_square * kept**t
    return jnp.asarray(decayed + floor, jnp.float32)


def one_step_bound(
    rounds: Array,
    *,
    smoothness: float,
    convexity: float,
    learning_rate: float,
    noise_square: float,
    cohort_size: int,
    initial_distance_square: float,
) -> Array:
    """Bound on E[F(w̃^t)] − F* for E = 1, shape of `rounds`, float32.

        L/2 · (q^(2t)·‖w⁰ − w*‖² + (1 − q^(2t))/(1 − q²) · N_c²/K)
        q = max(1 − ηρ, ηL − 1), which is 1 − ηρ for η ≤ 2/(L + ρ)

    Its noise term tends to L/2 · N_c²/(K(1 − q²)). Derivation, for exact gradients:

    1. One round is w⁺ = w − η∇F(w) + n̄ with E n̄ = 0 and E‖n̄‖² ≤ N_c²/K, n̄ being
       the mean of K independent noises; w ↦ w − η∇F(w) contracts to w* by q.
    2. Hence E‖w⁺ − w*‖² ≤ q²·E‖w − w*‖² + N_c²/K: a geometric series over t rounds.
    3. F(w) − F* ≤ L/2·‖w − w*‖², because F is L-smooth.

    F = ½‖w‖² (L = ρ = 1) attains it.

    Args:
      rounds, smoothness, convexity, learning_rate, noise_square, cohort_size,
        initial_distance_square: as in `printed_expression`; E is 1.

    Raises:
      ValueError: a constant is not > 0, ρ > L, η ≥ 1/ρ, η ≥ 2/L, or a square is < 0.
    """
    _check_problem(
        smoothness=smoothness,
        convexity=convexity,
        learning_rate=learning_rate,
        cohort_size=cohort_size,
        noise_square=noise_square,
        initial_distance_square=initial_distance_square,
    )
    if learning_rate * smoothness >= 2:
        raise ValueError(
            f"learning_rate must be < 2/smoothness = {2 / smoothness}, "
            f"got {learning_rate}"
        )
    contraction = max(1 - learning_rate * convexity, learning_rate * smoothness - 1)
    decayed = contraction ** (2 * np.asarray(rounds, np.float64))
    noise = (1 - decayed) / (1 - contraction**2) * noise_square / cohort_size
    gap = smoothness / 2 * (decayed * initial_distance_square + noise)
    return jnp.asarray(gap, jnp.float32)


def _check_problem(
    *,
    smoothness: float,
    convexity: float,
    learning_rate: float,
    cohort_size: int,
    noise_square: float,
    initial_distance_square: float,
) -> None:
    """Refuses constants that no problem has."""
    for name, value in (
        ("smoothness", smoothness),
        ("convexity", convexity),
        ("learning_rate", learning_rate),
    ):
        if not value > 0:
            raise ValueError(f"{name} must be > 0, got {value}")
    for name, value in (
        ("noise_square", noise_square),
        ("initial_distance_square", initial_distance_square),
    ):
        if not value >= 0:
            raise ValueError(f"{name} must be >= 0, got {value}")
    if cohort_size < 1:
        raise ValueError(f"cohort_size must be >= 1, got {cohort_size}")
    if convexity > smoothness:
        raise ValueError(
            f"convexity must be <= smoothness = {smoothness}, got {convexity}"
        )
    if learning_rate * convexity >= 1:
        raise ValueError(
            f"learning_rate must be < 1/convexity = {1 / convexity}, "
            f"got {learning_rate}"
        )
