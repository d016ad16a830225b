"""Central DP-FedAvg with a fixed and an adaptive clip."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from published import make, says, served, upload

from fedsvp_jax.core.settings import LEAST_CLIP
from fedsvp_jax.mechanisms import calibration, dp_fedavg


def test_sum_and_count_together_are_one_gaussian_of_multiplier_z():
    z, count = 1.2, 1.5
    on_sum = float(dp_fedavg.update_multiplier(z, count))
    np.testing.assert_allclose(on_sum**-2 + count**-2, z**-2, rtol=1e-6)
    told = {"noise_multiplier": z, "count_noise_std": count, "adaptive_clip": True}
    mechanism = make("dp_fedavg", l2_norm_clip=1.0, cohort_size=4, **told)
    info = upload(mechanism, jnp.ones((3,)))[2]
    says(info, noise_std=on_sum / 2, noise_multiplier=z / 2)
    assert not mechanism.basis.against_server


@pytest.mark.hole
def test_a_count_that_leaves_no_budget_for_the_sum_is_refused():
    """At z = .9 and σ_b = .5 the claim was 4.95 per round, the truth 10.35."""
    with pytest.raises(ValueError, match="count_noise_std must be greater than noise"):
        make("dp_fedavg", noise_multiplier=0.9, count_noise_std=0.5, adaptive_clip=True)


@pytest.mark.hole
def test_the_relation_is_add_or_remove_a_client_whatever_the_setting_says():
    claims = {
        make("dp_fedavg", clipping="update_clip", relation=relation).basis
        for relation in ("replace_one", "add_remove")
    }
    assert len(claims) == 1
    assert claims.pop().relation.startswith("add or remove a client")


def test_an_upload_is_told_with_its_part_of_the_rounds_noise_and_the_rounds_claim():
    mechanism = make(
        "dp_fedavg", noise_multiplier=1.5, l2_norm_clip=2.0, cohort_size=16, delta=0.01
    )
    _, state, info = upload(mechanism, jnp.ones((3,)))
    assert info.sensitivity == 2 and state.shared == {"clip": 2.0}
    claimed = calibration.concentrated_epsilon(1.5, 0.01)
    says(info, noise_std=3.0 / 16**0.5, noise_multiplier=1.5 / 4)  # of z·S
    says(info, epsilon=claimed, delta=0.01)
    assert mechanism.uniform_weights
    assert np.isnan(info.risk_tolerance) and info.step_noise_std == 0
    # A promise is about the average of a whole cohort.
    says(mechanism, least_multiplier=1.5, most_epsilon=claimed, most_delta=0.01)
    claim = mechanism.basis
    assert claim.proved and claim.central and claim.against_server and claim.any_epsilon
    assert claim.client_swap == 2 and mechanism.server is None
    silent = upload(make("dp_fedavg", noise_multiplier=0.0), jnp.ones((3,)))[2]
    assert silent.delta == 0


@pytest.mark.parametrize("took_part", [3, 0])
def test_the_server_moves_the_clip_by_the_noised_share_of_whole_updates(took_part: int):
    told = {"clip_quantile": 0.4, "clip_learning_rate": 0.3, "count_noise_std": 2.0}
    mechanism = make("dp_fedavg", l2_norm_clip=2.0, adaptive_clip=True, **told)
    info = upload(mechanism, jnp.ones((1,)))[2]
    infos = info.replace(clipped=jnp.asarray([1.0, 0.0, 0.0, 0.0]))
    key, params = jax.random.key(3), {"w": jnp.ones((1,))}
    valid, before = jnp.arange(4) < took_part, {"w": jnp.zeros((1,))}
    after, state = served(mechanism, params, before, infos, valid, key=key)
    whole = {3: 2.0, 0: 0.0}[took_part]
    share = (whole + 2.0 * float(jax.random.normal(key, ()))) / max(took_part, 1)
    np.testing.assert_allclose(
        state.shared["clip"], 2.0 * np.exp(-0.3 * (share - 0.4)), rtol=1e-5
    )
    np.testing.assert_array_equal(after["w"], params["w"])


def test_an_adaptive_clip_stays_where_norms_can_be_measured() -> None:
    shrunk = dp_fedavg.adapted_clip(1e-3, 1.0, 0.0, 1e3)
    assert float(shrunk) == pytest.approx(LEAST_CLIP)
