"""Mechanisms whose noise is the same in every round: none and gaussian."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from fedsvp_jax.core.structs import MechanismState, Params

from . import base, calibration, clipping
from .config import MechanismConfig


def make_none(config: MechanismConfig) -> base.Mechanism:
    """FedAvg: the upload leaves as it is, and nothing is drawn."""

    def update(updates: Params, state: MechanismState, **_: Any) -> base.Noised:
        infinite = jnp.float32(jnp.inf)
        info = dataclasses.replace(
            base.nothing_private(),
            noise_multiplier=jnp.float32(0),
            sensitivity=infinite,
            epsilon=infinite,
        )
        return updates, state, info

    return base.Mechanism(
        init=base.stateless,
        update=update,
        basis=base.Basis("none", False, "no noise, no guarantee"),
    )


def make_gaussian(config: MechanismConfig) -> base.Mechanism:
    """The Gaussian mechanism: noise of std z·Δ on every upload, Δ of the sensitivity.

    z is the least that gives (ε, δ), which is proved for any ε
    (`calibration.analytic_multiplier`). Under `per_example` the noise is in the local
    steps, and (ε, δ) is that of all steps of an upload.

    Source: Balle and Wang 2018 (arXiv 1805.06530).
    """
    config = dataclasses.replace(config, calibration="analytic")
    calibration.check_calibration(config)
    law = base.Law(
        lambda _ratio, _round: calibration.scaled_claim(config, 1.0), any_epsilon=True
    )
    return base.chain(clipping.make_clipping(config), law)
