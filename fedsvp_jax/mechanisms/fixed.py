"""Mechanisms whose noise is the same in every round: none and gaussian."""

import dataclasses
from typing import Any

import flax.struct
import jax.numpy as jnp

from fedsvp_jax.mechanisms import base
from fedsvp_jax.mechanisms.base import Law, Mechanism, UploadNoise
from fedsvp_jax.mechanisms.calibration import concentrated_epsilon
from fedsvp_jax.mechanisms.config import MechanismConfig
from fedsvp_jax.mechanisms.sensitivity import make_sensitivity
from fedsvp_jax.settings import Settings, setting
from fedsvp_jax.structs import Array, MechanismState, NoiseInfo, Params


def make_none(config: MechanismConfig) -> Mechanism:
    """FedAvg: the upload leaves as it is, and nothing is drawn."""

    def update(
        updates: Params, state: MechanismState, **rest: Any
    ) -> tuple[Params, MechanismState, NoiseInfo]:
        del rest
        infinite = jnp.full((), jnp.inf, jnp.float32)
        info = dataclasses.replace(
            base.nothing_private(),
            noise_multiplier=jnp.zeros((), jnp.float32),
            sensitivity=infinite,
            epsilon=infinite,
        )
        return updates, state, info

    del config
    return Mechanism(
        init=base.stateless,
        update=update,
        claim=base.Basis("none", False, "no noise, no guarantee"),
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
    std = jnp.asarray(config.settings.noise_std, jnp.float32)

    def calibrate(ratio: Array, round_num: Array, bound: Array) -> UploadNoise:
        del ratio, round_num
        multiplier = std / bound
        return base.claimed(
            multiplier,
            concentrated_epsilon(multiplier, config.delta),
            jnp.where(multiplier > 0, jnp.asarray(config.delta, jnp.float32), 0.0),
        )

    mechanism = base.chain(
        sensitivity,
        Law(calibrate, any_epsilon=True, min_num_examples=config.min_num_examples),
    )
    if mechanism.step_noise_std is None:
        return mechanism
    return mechanism._replace(step_noise_std=lambda ratio, round_num: std)
