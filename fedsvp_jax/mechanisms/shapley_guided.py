"""FedSVA and FedSDP: noise guided by the contribution ratio R."""

from collections.abc import Callable

import flax.struct
import jax.numpy as jnp

from fedsvp_jax.core.files import Record
from fedsvp_jax.core.float32 import reciprocal
from fedsvp_jax.core.settings import Settings, setting
from fedsvp_jax.core.structs import Array, Number

from . import base, calibration, clipping
from .config import MechanismConfig
from .release import spends_release_budget


@flax.struct.dataclass(frozen=True)
class ShapleyGuidedSettings(Settings):
    """Settings of fedsva and fedsdp."""

    noise_floor: float = setting(
        0.1, "Beta, least value of T. No value is published.", above=0, traced=True
    )


RELEASE_ASSUMPTIONS = {
    "raw": "the noise scale follows R, which private data decides and no noise hides",
    "worst_case": "R is fixed at 1, so the noise scale is public",
    "laplace": "R is released by a Laplace mechanism whose budget is counted, as of "
    "real numbers: the last bits of float32 tell R",
    "randomized_response": "R is released by randomised response, its budget counted",
}


def risk_tolerance(contribution_ratio: Number, delta: Number) -> Array:
    """T = R − ln δ². Shape of R. Source: FedSVA (arXiv 2503.12958v2, sec. 3.2)."""
    return jnp.float32(contribution_ratio) - 2.0 * jnp.log(jnp.float32(delta))


def fedsdp_risk_tolerance(contribution_ratio: Number, delta: Number) -> Array:
    """T = x − ln δ² with x = clip(R/2 − 1, −3, 1). Shape of R.

    A reconstruction: the earlier text's further hyper-parameter is lost; its
    public code computes this x and does not use it.
    """
    ratio = jnp.float32(contribution_ratio)
    return risk_tolerance(jnp.clip(0.5 * ratio - 1.0, -3.0, 1.0), delta)


def effective_delta(tolerance: Array, floor: Number) -> Array:
    """δ′ = 1.25·exp(−max(T, β)/2), the δ that the noise stands for.

    Above the floor this is 1.25·e^(−R/2)·δ; where the floor binds it is
    δ_0 = 1.25·e^(−β/2), which exceeds 1 and so claims nothing when β < 0.446.

    Source: FedSVA (arXiv 2503.12958v2, sec. 3.3, Theorem 1).
    """
    return 1.25 * jnp.exp(-0.5 * jnp.maximum(tolerance, jnp.float32(floor)))


def guided_multiplier(tolerance: Array, epsilon: Number, floor: Number) -> Array:
    """z = sqrt(max(T, β))/ε, std over sensitivity. Shape of T, float32.

    With Δ = 2C/|D| (`record_bound`) it is the printed σ = 2C·sqrt(max(T, β))/(ε|D|).

    Args:
      tolerance: T.
      epsilon: ε claimed per upload, > 0.
      floor: β > 0.

    Source: FedSVA (arXiv 2503.12958v2, sec. 3.2).
    """
    floored = jnp.maximum(tolerance, jnp.float32(floor))
    return jnp.sqrt(floored) * reciprocal(jnp.float32(epsilon))


def explanation(
    formula: str, tolerance_of: Callable[[float, float], Array]
) -> Callable[[Record], str]:
    """The explanation for pages of how σ follows from R, and how far it can.

    The formula of T stands there in words.
    """

    def explained(config: Record) -> str:
        delta, floor = (float(config.get(n) or 0) for n in ("delta", "noise_floor"))
        if not delta:
            return ""
        lowest, highest = (
            guided_multiplier(tolerance_of(ratio, delta), 1.0, floor)
            for ratio in (0.0, 1.0)
        )
        return (
            f"T = {formula}, σ = Δ·√max(T, β)/ε and δ′ = 1.25·e^(−max(T, β)/2), with"
            f" δ = {delta:g} and β = {floor:g}: R can change the noise by at most"
            f" {100 * float(highest / lowest - 1):.3g} %."
        )

    return explained


def make_guided(
    config: MechanismConfig, tolerance_of: Callable[[Number, Number], Array]
) -> base.Mechanism:
    """FedSVA as printed or FedSDP, a reconstruction: σ = Δ·sqrt(max(T, β))/ε.

    T is `risk_tolerance` of FedSVA, `fedsdp_risk_tolerance` of FedSDP.
    """
    if config.calibration == "analytic":
        raise ValueError(
            "calibration must be 'classical' for fedsva and fedsdp, whose noise is the "
            "printed formula, got 'analytic': leave it out; for epsilon >= 1 add "
            "allow_large_epsilon, or take mechanism gaussian in their place"
        )
    calibration.check_calibration(config, has_analytic=False)
    release, floor = config.contribution_release, config.settings.noise_floor
    released = spends_release_budget(config)

    def calibrate(ratio: Array, _: Array) -> base.UploadNoise:
        tolerance = tolerance_of(ratio, config.delta)
        # A released R follows earlier models, so z does too, and what it was cannot be
        # added up afterwards (a tally is no guarantee): the least z is counted.
        counted = tolerance_of(0.0, config.delta) if released else tolerance
        return base.UploadNoise(
            noise_multiplier=guided_multiplier(tolerance, config.epsilon, floor),
            counted_multiplier=guided_multiplier(counted, config.epsilon, floor),
            epsilon=jnp.float32(config.epsilon),
            delta=effective_delta(counted, floor),
            risk_tolerance=tolerance,
        )

    law = base.Law(
        calibrate,
        (RELEASE_ASSUMPTIONS[release],),
        proved=release != "raw",
        needs_contribution=release != "worst_case",
    )
    return base.chain(clipping.make_clipping(config), law)
