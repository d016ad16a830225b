"""The Gaussian noise that an (ε, δ) asks for, as std over sensitivity."""

import dataclasses
import math
from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core.structs import Array, Number

from .base import UploadNoise, claimed
from .config import MechanismConfig, concrete

_LARGEST_EXACT = 5e5  # ε to which dp-accounting's root keeps its digits
_EXACT = (1e-12, 1e6)  # precisions at which dp-accounting's Gaussian ε keeps its digits


def classical_constant(delta: Number) -> Array:
    """c = sqrt(2 ln(1.25/δ)), () float32.

    Source: Dwork and Roth 2014, Theorem A.1.
    """
    return jnp.sqrt(2.0 * jnp.log(1.25 / jnp.float32(delta)))


def classical_multiplier(epsilon: Number, delta: Number) -> Array:
    """z = c(δ)/ε, () float32: proved to give (ε, δ)-DP for ε < 1 only.

    At ε = 10, δ = 1e-5 the true δ of this noise is 2.27e-5.

    Source: Dwork and Roth 2014, Theorem A.1.
    """
    return classical_constant(delta) / jnp.float32(epsilon)


def analytic_multiplier(epsilon: Number, delta: Number) -> np.ndarray:
    """The least z that gives (ε, δ)-DP, for any ε; elementwise, on the host.

    Above ε = 5e5, where the exact value loses its digits, z is up to 2e-6 too large:
    it solves ε = `gaussian_epsilon_bound`.

    Source: Balle and Wang 2018 (arXiv 1805.06530), by dp-accounting.
    """
    pairs = np.broadcast(np.asarray(epsilon, float), np.asarray(delta, float))
    values = [_least_multiplier(float(e), float(d)) for e, d in pairs]
    return np.asarray(values).reshape(pairs.shape)


@lru_cache(maxsize=4096)  # a page asks it of each of many cells
def _least_multiplier(epsilon: float, delta: float) -> float:
    from dp_accounting import gaussian_mechanism
    from scipy import stats

    if epsilon <= _LARGEST_EXACT:
        return gaussian_mechanism.get_sigma_gaussian(epsilon, delta)
    quantile = float(stats.norm.isf(delta))
    return 1.0 / (math.sqrt(quantile**2 + 2.0 * epsilon) - quantile)


def gaussian_epsilon_bound(precision: float, delta: float) -> float:
    """p/2 + sqrt(p)·Φ⁻¹(1 − δ), p = 1/z²: above the exact ε of a Gaussian at δ.

    It leaves out the second term of δ = Φ(√p/2 − ε/√p) − e^ε·Φ(−√p/2 − ε/√p). At
    p = 1e6 it is 2e-6 too large; it is at least 0.

    Source: Balle and Wang 2018 (arXiv 1805.06530), Theorem 8.
    """
    from scipy import stats

    return max(0.0, precision / 2 + math.sqrt(precision) * float(stats.norm.isf(delta)))


def gaussian_epsilon(precision: float, delta: float) -> float:
    """ε at δ of one Gaussian, exact; from above where that value loses its digits."""
    from dp_accounting import gaussian_mechanism
    from scipy import special

    if special.erf(math.sqrt(precision / 8)) <= delta:  # what δ is at ε = 0
        return 0.0
    if not _EXACT[0] <= precision <= _EXACT[1]:
        return gaussian_epsilon_bound(precision, delta)
    with np.errstate(divide="ignore"):  # of a δ that is 0 in floating point
        return float(gaussian_mechanism.get_epsilon_gaussian(precision**-0.5, delta))


def concentrated_epsilon(noise_multiplier: Number, delta: Number) -> Array:
    """ε of one Gaussian of multiplier z at δ, by zCDP: ρ + 2 sqrt(ρ ln(1/δ)).

    ρ = 1/(2z²). Proved for every z, in closed form (so it can be traced), and
    above the exact value; z = 0 gives inf.

    Source: Bun and Steinke 2016 (arXiv 1605.02065), Propositions 1.3 and 1.6.
    """
    rho = 0.5 / jnp.square(jnp.float32(noise_multiplier))
    return rho + 2.0 * jnp.sqrt(-rho * jnp.log(jnp.float32(delta)))


def with_analytic_multiplier(config: MechanismConfig) -> MechanismConfig:
    """The config with its analytic z solved for, once, on the host.

    A sweep calls this for each cell before it stacks the cells (or once on stacked
    leaves): the root finder cannot be traced.
    """
    solved = analytic_multiplier(config.epsilon, config.delta)
    return dataclasses.replace(config, analytic_multiplier=np.float32(solved))  # type: ignore[arg-type]


def check_calibration(config: MechanismConfig, *, has_analytic: bool = True) -> None:
    """Refuses what the calibration has no proof for.

    Raises:
      ValueError: classical at a concrete ε ≥ 1 without `allow_large_epsilon`, or
        analytic with a traced ε and no solved multiplier.
    """
    epsilon = concrete(config.epsilon)
    if config.calibration == "analytic":
        traced = epsilon is None or concrete(config.delta) is None
        if config.analytic_multiplier is None and traced:
            raise ValueError(
                "the analytic calibration needs with_analytic_multiplier(config) "
                "before epsilon or delta is traced"
            )
    elif not (config.allow_large_epsilon or epsilon is None or np.all(epsilon < 1)):
        other = "calibration='analytic'"
        if not has_analytic:
            other = "mechanism gaussian, proved for any epsilon"
        raise ValueError(
            f"epsilon must be < 1 with calibration='classical', got {config.epsilon}: "
            f"take {other}, or allow_large_epsilon for the unproved value"
        )


def base_multiplier(config: MechanismConfig) -> Array:
    """z for the config's (ε, δ) under its calibration, () float32."""
    if config.calibration == "classical":
        return classical_multiplier(config.epsilon, config.delta)
    if config.analytic_multiplier is None:
        config = with_analytic_multiplier(config)
    return jnp.float32(config.analytic_multiplier)


def scaled_claim(config: MechanismConfig, factor: Number) -> UploadNoise:
    """The noise of `factor` times the base multiplier, and its (ε, δ).

    Classical: the formula read backwards gives ε/factor (above 1 it is nominal).
    Analytic: ε by zCDP, or the target where the noise is at least the target's.
    """
    factor = jnp.float32(factor)
    multiplier = base_multiplier(config) * factor
    target = jnp.float32(config.epsilon)
    if config.calibration == "classical":
        return claimed(multiplier, target / factor, config.delta)
    epsilon = concentrated_epsilon(multiplier, config.delta)
    epsilon = jnp.where(factor >= 1, jnp.minimum(epsilon, target), epsilon)
    return claimed(multiplier, epsilon, config.delta)
