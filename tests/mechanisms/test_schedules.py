"""Time-varying and dynamic allocation: one budget, METHODS section 4's numbers."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
from published import says, upload

from fedsvp_jax.mechanisms import Mechanism, schedules


def time_varying(num_rounds: int, rate: float) -> jax.Array:
    """(T,) σ_t/σ_c."""
    return schedules.time_varying_factor(num_rounds, rate, jnp.arange(num_rounds))


def dpa(num_rounds: int, rate: float) -> jax.Array:
    """(T,) σ_t/σ_c."""
    return schedules.dpa_factor(num_rounds, rate, jnp.arange(num_rounds))


quick = hypothesis.settings(max_examples=15, deadline=None, derandomize=True)


@quick
@hypothesis.given(st.sampled_from((1, 4, 300)), st.floats(0.5, 1.0))
def test_both_keep_the_budget_of_the_constant_noise(num_rounds: int, rate: float):
    for stds in (time_varying(num_rounds, rate), dpa(num_rounds, rate)):
        precision = np.sum(1 / np.square(np.asarray(stds, np.float64)))
        np.testing.assert_allclose(precision, num_rounds, rtol=2e-4)


@quick
@hypothesis.given(st.sampled_from((1, 4, 400)), st.floats(0.9, 1.0))
def test_dpa_is_time_varying_with_the_fourth_root(num_rounds: int, contraction: float):
    same = time_varying(num_rounds, contraction**0.25)
    np.testing.assert_allclose(dpa(num_rounds, contraction), same, rtol=5e-5)


def test_dpa_minimises_the_final_error_among_schedules_of_its_budget():
    rounds, contraction = 12, 0.8
    weights = contraction ** np.arange(rounds - 1.0, -1, -1)
    best = np.asarray(dpa(rounds, contraction), np.float64)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = best * np.exp(0.2 * rng.standard_normal(rounds))
        other *= np.sqrt(np.sum(other**-2.0) / np.sum(best**-2.0))
        assert weights @ best**2 <= weights @ other**2 * (1 + 1e-6)


def test_both_at_the_published_length():
    stds = 0.287582 * time_varying(400, 0.995)
    np.testing.assert_allclose([stds[0], stds[-1]], [1.054126, 0.142660], rtol=5e-6)
    np.testing.assert_allclose(0.287582 * dpa(400, 0.98)[0], 1.066556, rtol=2e-6)


def check(mechanism: Mechanism, factors: np.ndarray) -> None:
    """z_t is the constant z times the factor, and ε_t ε over it."""
    z = np.sqrt(2 * np.log(1.25 / 0.02)) / 0.2 * factors
    info = upload(mechanism, jnp.ones((3,)), round_num=2, num_examples=500)[2]
    says(info, rtol=1e-5, noise_multiplier=z[2], epsilon=0.2 / factors[2])
    says(info, sensitivity=2 * 20 / 500, delta=0.02)
    says(mechanism, rtol=1e-5, least_multiplier=z, most_epsilon=0.2 / factors)
    says(mechanism, most_delta=0.02)
