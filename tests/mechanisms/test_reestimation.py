"""Sensitivity re-estimation (reconstruction): METHODS section 4."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import make, says, served, upload

from fedsvp_jax.core.structs import MechanismState
from fedsvp_jax.mechanisms import reestimation

STATE = MechanismState(clients={"last_norm": 3.0}, shared={"global_norm": 5.0})


def test_the_first_clip_is_c_and_none_is_above_it_or_zero():
    mechanism = make("reestimation")
    first = mechanism.init(4)
    assert np.all(np.asarray(first.clients["last_norm"]) == 20)
    assert reestimation.reestimated_clip(20.0, 0.5, 90.0, 90.0) == 20
    assert reestimation.reestimated_clip(20.0, 0.25, 4.0, 8.0) == 7
    assert reestimation.reestimated_clip(20.0, 0.5, 0.0, 0.0) > 0


def test_the_global_norm_is_rid_of_the_noise():
    size, std, true = 40_000, 0.1, 30.0
    step = jnp.full((size,), true / size**0.5)
    noisy = step + std * jax.random.normal(jax.random.key(0), (size,))
    assert np.linalg.norm(noisy) > 35
    found = reestimation.denoised_norm({"w": noisy}, std)
    np.testing.assert_allclose(found, true, rtol=0.02)
    assert reestimation.denoised_norm({"w": step}, 10.0) == 0


def test_the_server_takes_the_aggregates_std_from_those_who_took_part():
    mechanism = make("reestimation")
    info = upload(mechanism, jnp.asarray([6.0, 8.0]), state=STATE)[2]
    stds = jnp.asarray([0.3, 0.4, 99.0])
    infos = info.replace(noise_std=stds)
    after, before = {"w": jnp.ones((4,))}, {"w": jnp.zeros((4,))}
    valid = jnp.asarray([True, True, False])
    _, state = served(mechanism, after, before, infos, valid)
    # σ_agg² = (0.09 + 0.16)/4, d = 4: h² = 4 − 4·0.0625
    np.testing.assert_allclose(state.shared["global_norm"], 3.75**0.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("choice", "bound"), [("paper", 2 * 4 / 2000), ("update_clip", 2 * 4.0)]
)
def test_an_upload_is_noised_for_its_own_clip_and_claims_the_target(
    choice: str, bound: float
):
    mechanism = make("reestimation", clipping=choice)
    update = jnp.asarray([6.0, 8.0])
    sent, after, info = upload(mechanism, update, state=STATE)
    multiplier = np.sqrt(2 * np.log(1.25 / 0.02)) / 0.2
    says(info, noise_multiplier=multiplier, noise_std=multiplier * bound)
    says(info, sensitivity=bound, epsilon=0.2, delta=0.02)
    drawn = info.noise_std * jax.random.normal(jax.random.key(0), (2,))
    np.testing.assert_allclose(sent["w"], 0.4 * update + drawn, rtol=1e-5)
    assert after.shared["global_norm"] == 5
    assert after.clients["last_norm"] == 10  # before the clip
    says(mechanism, least_multiplier=multiplier, most_epsilon=0.2, most_delta=0.02)
    claim = mechanism.basis
    assert not claim.proved and claim.client_swap is None
    assert "the client's own past norm, which no noise hides" in claim.assumptions
