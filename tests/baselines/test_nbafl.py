"""NbAFL: METHODS section 4's numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import make, served, upload

from fedsvp_jax import baselines

PUBLISHED = {"l2_norm_clip": 20.0, "min_num_examples": 2000, "delta": 0.02}
ORIGINAL = {
    "l2_norm_clip": 20.0,
    "min_num_examples": 100,
    "delta": 0.01,
    "epsilon": 60.0,
    "exposures": 1,
}


@pytest.mark.parametrize(
    ("epsilon", "std"), [(0.1, 0.575164), (0.2, 0.287582), (0.5, 0.115033)]
)
def test_uplink_at_the_published_set_up(epsilon: float, std: float):
    config = {"epsilon": epsilon, "min_num_examples": 2000.0}
    for exposures in (1.0, 10.0):
        mechanism = make("nbafl", exposures=exposures, **config)
        info = upload(mechanism, jnp.ones((1,)), num_examples=9000)[2]
        np.testing.assert_allclose(info.noise_std, exposures * std, rtol=5e-6)
        np.testing.assert_allclose(info.epsilon, epsilon / exposures, rtol=1e-6)


def test_uplink_at_nbafls_own_set_up():
    told = {key: value for key, value in ORIGINAL.items() if key != "exposures"}
    mechanism = make("nbafl", allow_large_epsilon=True, **told)
    info = upload(mechanism, jnp.ones((1,)))[2]
    np.testing.assert_allclose(info.noise_std, 0.0207167, rtol=5e-6)


@pytest.mark.parametrize(
    ("num_rounds", "cohort_size", "std"),
    [(25, 50, 0.00993540), (7, 50, 0.0), (25, 20, 0.0)],
)
def test_downlink_of_fifty_clients(num_rounds: int, cohort_size: int, std: float):
    found = baselines.nbafl_downlink_std(
        num_rounds=num_rounds, num_clients=50, cohort_size=cohort_size, **ORIGINAL
    )
    np.testing.assert_allclose(found, std, rtol=5e-6)


@pytest.mark.parametrize(("exposures", "std"), [(1, 1.144128), (40, 0.0)])
def test_downlink_at_the_published_set_up(exposures: int, std: float):
    found = baselines.nbafl_downlink_std(
        epsilon=0.2,
        exposures=exposures,
        num_rounds=400,
        num_clients=100,
        cohort_size=10,
        **PUBLISHED,
    )
    np.testing.assert_allclose(found, std, rtol=3e-6)


def test_the_downlinks_noise_is_the_servers_keys_own():
    mechanism = make("nbafl", min_num_examples=2000.0, downlink_noise=True)
    key, params = jax.random.key(5), {"w": jnp.full((4,), 7.0)}
    state = mechanism.init(100)
    noised, after = served(mechanism, params, params, state=state, key=key)
    drawn = 1.144128 * jax.random.normal(key, (4,))
    np.testing.assert_allclose(noised["w"], 7.0 + drawn, rtol=1e-5)
    assert after == state
