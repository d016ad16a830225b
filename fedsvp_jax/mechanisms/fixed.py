"""Mechanisms whose noise is the same in every round: none and gaussian."""

import flax.struct
import jax.numpy as jnp

from fedsvp_jax.mechanisms import base
from fedsvp_jax.mechanisms.base import Mechanism, UploadNoise
from fedsvp_jax.mechanisms.calibration import concentrated_epsilon
from fedsvp_jax.mechanisms.config import MechanismConfig
from fedsvp_jax.mechanisms.sensitivity import make_sensitivity
from fedsvp_jax.settings import Settings, setting
from fedsvp_jax.structs import Array, MechanismState, NoiseInfo, Params


def make_none(config: MechanismConfig) -> Mechanism:
    """FedAvg: the upload leaves as it is, and nothing is drawn."""

    def update(
        updates: Params,
        state: MechanismState,
        *,
        key: Array,
        num_examples: Array,
        contribution_ratio: Array,
        round_num: Array,
        params: Params,
    ) -> tuple[Params, MechanismState, NoiseInfo]:
        del key, num_examples, contribution_ratio, round_num, params
        zero = jnp.zeros((), jnp.float32)
        infinite = jnp.full((), jnp.inf, jnp.float32)
        info = NoiseInfo(
            noise_multiplier=zero,
            noise_std=zero,
            step_noise_std=zero,
            noise_l2=zero,
            sensitivity=infinite,
            epsilon=infinite,
            delta=zero,
            risk_tolerance=jnp.full((), jnp.nan, jnp.float32),
            clipped=zero,
        )
        return updates, state, info

    del config
    return Mechanism(
        init=base.stateless,
        update=update,
        claim=base.Claim("none", False, "no noise, no guarantee"),
    )


@flax.struct.dataclass(frozen=True)
class GaussianSettings(Settings):
    """Settings of gaussian."""

    noise_std: float = setting(
        0.01,
        "Std of the noise on every upload.",
        at_least=0,
        traced=True,
    )


def make_gaussian(config: MechanismConfig) -> Mechanism:
    """Noise of one given std on every upload.

    z = noise_std/Δ, Δ from the sensitivity; ε at δ by zCDP, proved for every z.
    Under `per_example`, noise_std is a local step's.
    """
    sensitivity = make_sensitivity(config)

    def update(
        updates: Params,
        state: MechanismState,
        *,
        key: Array,
        num_examples: Array,
        contribution_ratio: Array,
        round_num: Array,
        params: Params,
    ) -> tuple[Params, MechanismState, NoiseInfo]:
        del contribution_ratio, round_num
        updates, clipped = sensitivity.clip(updates, params)
        bound = sensitivity.bound(num_examples)
        upload_noise = _fixed_noise(config, bound)
        noised, info = base.noised_upload(
            updates,
            upload_noise,
            std=upload_noise.noise_multiplier * bound,
            sensitivity=bound,
            clipped=clipped,
            at_upload=sensitivity.at_upload,
            grid=sensitivity.grid,
            num_examples=num_examples,
            key=key,
        )
        return noised, state, info

    def step_noise_std(contribution_ratio: Array, *, round_num: Array) -> Array:
        del contribution_ratio, round_num
        return jnp.asarray(config.settings.noise_std, jnp.float32)

    smallest = jnp.asarray(config.min_num_examples, jnp.float32)
    worst = _fixed_noise(config, sensitivity.bound(smallest))
    return Mechanism(
        init=base.stateless,
        update=update,
        step_noise_std=None if sensitivity.at_upload else step_noise_std,
        claim=base.claim_of(sensitivity, any_epsilon=True),
        grid=sensitivity.grid,
        least_multiplier=worst.noise_multiplier,
        most_epsilon=worst.epsilon,
        most_delta=worst.delta,
    )


def _fixed_noise(config: MechanismConfig, bound: Array) -> UploadNoise:
    multiplier = jnp.asarray(config.settings.noise_std, jnp.float32) / bound
    noisy = multiplier > 0
    return base.claimed(
        multiplier,
        concentrated_epsilon(multiplier, config.delta),
        jnp.where(noisy, jnp.asarray(config.delta, jnp.float32), 0.0),
    )
