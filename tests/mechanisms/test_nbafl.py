"""NbAFL: METHODS section 4's numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import make, published, served, upload

from fedsvp_jax.mechanisms import nbafl

PUBLISHED = {"l2_norm_clip": 20.0, "min_num_examples": 2000, "delta": 0.02}
OWN = {"l2_norm_clip": 20.0, "min_num_examples": 100, "delta": 0.01}  # NbAFL's


@pytest.mark.parametrize(
    ("set_up", "epsilon", "std"),
    [
        (PUBLISHED, 0.1, 0.575164),
        (PUBLISHED, 0.2, 0.287582),
        (PUBLISHED, 0.5, 0.115033),
        (OWN, 60.0, 0.0207167),
    ],
)
def test_uplink(set_up: dict[str, float], epsilon: float, std: float):
    told = {"epsilon": epsilon, "allow_large_epsilon": epsilon > 1, **set_up}
    for exposures in (1.0, 10.0):
        mechanism = make("nbafl", exposures=exposures, **told)
        info = upload(mechanism, jnp.ones((1,)), num_examples=9000)[2]
        np.testing.assert_allclose(info.noise_std, exposures * std, rtol=5e-6)
        np.testing.assert_allclose(info.epsilon, epsilon / exposures, rtol=1e-6)


@pytest.mark.parametrize(
    ("set_up", "epsilon", "exposures", "rounds", "of", "cohort", "std"),
    [
        (OWN, 60.0, 1, 25, 50, 50, 0.00993540),
        (OWN, 60.0, 1, 7, 50, 50, 0.0),
        (OWN, 60.0, 1, 25, 50, 20, 0.0),
        (PUBLISHED, 0.2, 1, 400, 100, 10, 1.144128),
        (PUBLISHED, 0.2, 40, 400, 100, 10, 0.0),
    ],
)
def test_downlink(set_up, epsilon, exposures, rounds, of, cohort, std):
    told = {"epsilon": epsilon, "exposures": exposures, "num_rounds": rounds}
    told |= {"num_clients": of, "cohort_size": cohort}
    found = nbafl.nbafl_downlink_std(published("nbafl", **told, **set_up))
    np.testing.assert_allclose(found, std, rtol=5e-6)


def test_the_downlinks_noise_is_the_servers_keys_own():
    mechanism = make("nbafl", min_num_examples=2000.0, downlink_noise=True)
    key, params = jax.random.key(5), {"w": jnp.full((4,), 7.0)}
    state = mechanism.init(100)
    noised, after = served(mechanism, params, params, state=state, key=key)
    drawn = 1.144128 * jax.random.normal(key, (4,))
    np.testing.assert_allclose(noised["w"], 7.0 + drawn, rtol=1e-5)
    assert after == state
