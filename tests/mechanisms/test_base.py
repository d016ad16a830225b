"""What holds for every mechanism before it may run."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from published import make, published, upload

from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.mechanisms.base import (
    NOTHING_ELSE,
    Law,
    UploadNoise,
    chain,
    claim_of,
    claimed,
    nothing_private,
)
from fedsvp_jax.mechanisms.sensitivity import make_sensitivity


def test_without_a_mechanism_nothing_is_added_and_nothing_is_claimed() -> None:
    update = jnp.asarray([3.0, -0.0, 4.0])
    sent, _, info = upload(make("none"), update)
    assert np.asarray(sent["w"]).tobytes() == np.asarray(update).tobytes()
    for name in (
        *("noise_multiplier", "noise_std", "step_noise_std", "noise_l2"),
        *("delta", "clipped"),
    ):
        assert getattr(info, name) == 0
    assert info.epsilon == info.sensitivity == np.inf and np.isnan(info.risk_tolerance)
    assert make("none").claim.relation == "none"
    assert make("none").claim.proved is False


def test_the_gaussian_of_one_std_claims_what_it_gives() -> None:
    mechanism = make("gaussian", noise_std=4.0, sensitivity="update_clip", delta=1e-3)
    _, _, info = upload(mechanism, jnp.ones(3))
    bound = 2 * 20.0
    np.testing.assert_allclose(info.noise_std, 4.0, rtol=1e-6)
    np.testing.assert_allclose(info.noise_multiplier, 4.0 / bound, rtol=1e-6)
    rho = 0.5 * (bound / 4.0) ** 2
    epsilon = rho + 2 * np.sqrt(rho * np.log(1e3))
    np.testing.assert_allclose(info.epsilon, epsilon, rtol=1e-5)
    np.testing.assert_allclose(mechanism.most_epsilon, epsilon, rtol=1e-5)
    np.testing.assert_allclose([info.delta, mechanism.most_delta], 1e-3, rtol=1e-6)
    np.testing.assert_allclose(mechanism.least_multiplier, 4.0 / bound, rtol=1e-6)
    assert mechanism.claim.proved and mechanism.claim.any_epsilon
    in_steps = make("gaussian", noise_std=4.0, sensitivity="per_example")
    assert mechanism.step_noise_std is None and in_steps.step_noise_std is not None
    assert in_steps.step_noise_std(jnp.float32(1), round_num=jnp.int32(0)) == 4.0
    silent = make("gaussian", noise_std=0.0)
    assert silent.most_delta == 0 and silent.most_epsilon == np.inf


def by_ratio_and_round(**changes: Any) -> Mechanism:
    """z = (3 − 2R)(t + 1), ε = (1 + R)/(t + 1)/10, δ = (2 − R)(t + 1)/100; Δ = 5."""

    def calibrate(
        ratio: jax.Array, round_num: jax.Array, bound: jax.Array
    ) -> UploadNoise:
        del bound
        done = round_num.astype(jnp.float32) + 1
        return claimed(
            (3 - 2 * ratio) * done, 0.1 * (1 + ratio) / done, 0.01 * (2 - ratio) * done
        )

    config = published(**{"sensitivity": "weight_clip", "l2_norm_clip": 2.5} | changes)
    law = Law(calibrate, ("tested",), num_rounds=2, needs_contribution=True)
    return chain(make_sensitivity(config), law)


def test_an_uploads_noise_follows_ratio_and_round_and_its_norm_is_told() -> None:
    found = by_ratio_and_round()
    update = jnp.zeros(1000)
    sent, _, info = upload(found, update, ratio=0.5, round_num=1)
    assert info.noise_multiplier == 4 and info.sensitivity == 5
    np.testing.assert_allclose([info.noise_std, info.step_noise_std], [20.0, 0.0])
    np.testing.assert_allclose(info.noise_l2, np.linalg.norm(sent["w"]), rtol=1e-5)
    np.testing.assert_allclose(
        [info.epsilon, info.delta], [0.1 * 1.5 / 2, 0.01 * 1.5 * 2], rtol=1e-6
    )
    assert found.needs_contribution and "; tested; " in found.claim.assumptions
    assert found.follows_num_rounds and not make("nbafl").follows_num_rounds


def test_the_noise_of_a_step_is_the_multiplier_times_a_steps_bound() -> None:
    found = by_ratio_and_round(sensitivity="per_example", local_epochs=4, batch_size=5)
    bound = np.sqrt(4) * 2 * 2.5 / 5
    std = found.step_noise_std(jnp.float32(0.5), round_num=jnp.int32(1))
    np.testing.assert_allclose(std, 4 * bound, rtol=1e-6)
    sent, _, info = upload(found, jnp.ones(3), ratio=0.5, round_num=1)
    np.testing.assert_array_equal(sent["w"], np.ones(3))
    assert info.noise_std == 0
    np.testing.assert_allclose(info.step_noise_std, 4 * bound, rtol=1e-6)


def test_a_promise_rests_on_the_worst_ratio_of_every_round() -> None:
    found = by_ratio_and_round()
    np.testing.assert_allclose(found.least_multiplier, [1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(found.most_epsilon, [0.2, 0.1], rtol=1e-6)
    np.testing.assert_allclose(found.most_delta, [0.02, 0.04], rtol=1e-6)


def test_a_claim_is_its_sensitivitys_with_more_assumptions() -> None:
    bound = make_sensitivity(published(sensitivity="update_clip"))
    claim = claim_of(bound, "and more")
    assert claim.proved and not claim.any_epsilon and claim.client_swap == 1.0
    assert claim.relation == bound.relation
    assert claim.assumptions == "; ".join((bound.assumptions, "and more", NOTHING_ELSE))
    assert not claim_of(bound, proved=False).proved
    assert not claim_of(make_sensitivity(published(sensitivity="paper"))).proved
    assert claim_of(bound, any_epsilon=True).any_epsilon


def test_an_upload_of_public_data_costs_nothing() -> None:
    info = nothing_private()
    assert info.noise_multiplier == np.inf and np.isnan(info.risk_tolerance)
    for name in (
        *("noise_std", "step_noise_std", "noise_l2", "sensitivity"),
        *("epsilon", "delta", "clipped"),
    ):
        assert getattr(info, name).shape == () and getattr(info, name) == 0
