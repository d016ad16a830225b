"""Time-varying and dynamic allocation: one budget, METHODS section 4's numbers."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import published

from fedsvp_jax import mechanisms

quick = hypothesis.settings(max_examples=15, deadline=None, derandomize=True)


@quick
@hypothesis.given(st.sampled_from((1, 4, 300)), st.floats(0.5, 1.0))
def test_both_keep_the_budget_of_the_constant_noise(num_rounds: int, rate: float):
    for stds in (
        mechanisms.time_varying_stds(num_rounds, rate, 1.0),
        mechanisms.dpa_stds(num_rounds, rate, 1.0),
    ):
        precision = np.sum(1 / np.square(np.asarray(stds, np.float64)))
        np.testing.assert_allclose(precision, num_rounds, rtol=2e-4)


@quick
@hypothesis.given(st.sampled_from((1, 4, 400)), st.floats(0.9, 1.0))
def test_dpa_is_time_varying_with_the_fourth_root(num_rounds: int, contraction: float):
    np.testing.assert_allclose(
        mechanisms.dpa_stds(num_rounds, contraction, 1.0),
        mechanisms.time_varying_stds(num_rounds, contraction**0.25, 1.0),
        rtol=5e-5,
    )


def test_dpa_minimises_the_final_error_among_schedules_of_its_budget():
    rounds, contraction = 12, 0.8
    weights = contraction ** np.arange(rounds - 1.0, -1, -1)
    best = np.asarray(mechanisms.dpa_stds(rounds, contraction, 1.0), np.float64)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = best * np.exp(0.2 * rng.standard_normal(rounds))
        other *= np.sqrt(np.sum(other**-2.0) / np.sum(best**-2.0))
        assert weights @ best**2 <= weights @ other**2 * (1 + 1e-6)


def test_time_varying_at_four_rounds():
    np.testing.assert_allclose(
        mechanisms.time_varying_stds(4, 0.8, 1.0),
        [1.484807, 1.187845, 0.950276, 0.760221],
        atol=1e-6,
    )


def test_time_varying_at_the_published_length():
    stds = mechanisms.time_varying_stds(400, 0.995, 0.287582)
    np.testing.assert_allclose(stds[0], 1.054126, rtol=2e-6)
    np.testing.assert_allclose(stds[-1], 0.142660, rtol=5e-6)


def test_dpa_at_the_published_length():
    stds = mechanisms.dpa_stds(400, 0.98, 0.287582)
    np.testing.assert_allclose(stds[0], 1.066556, rtol=2e-6)


def test_a_steep_schedule_does_not_overflow():
    assert np.all(np.isfinite(mechanisms.time_varying_stds(400, 0.8, 1.0)))


@pytest.mark.parametrize(
    ("name", "stds"),
    [
        ("time_varying", mechanisms.time_varying_stds(400, 0.995, 0.287582)),
        ("dpa", mechanisms.dpa_stds(400, 0.98, 0.287582)),
    ],
)
def test_the_mechanism_follows_its_schedule(name: str, stds: jnp.ndarray):
    mechanism = mechanisms.make_mechanism(name, published(name))
    for t in (0, 399):
        info = mechanism.update(
            {"w": jnp.ones((3,))},
            mechanism.init(100),
            key=jax.random.key(0),
            num_examples=jnp.int32(2000),
            contribution_ratio=jnp.float32(1),
            round_num=jnp.int32(t),
            params={"w": jnp.ones((3,))},
        )[2]
        np.testing.assert_allclose(info.noise_std, stds[t], rtol=1e-5)
        np.testing.assert_allclose(
            info.epsilon, 0.2 * 0.287582 / float(stds[t]), rtol=1e-5
        )
