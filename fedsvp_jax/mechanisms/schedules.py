"""Noise that changes with the round under one fixed budget.

Both schedules keep Σ_t 1/σ_t² = T/σ_c², the budget of T uploads at the constant σ_c
(Gaussians compose to one Gaussian of that precision), and spend it unevenly. That is
one reading of the papers; by the other, the first round has σ_c and every later one
less, so that more than the budget is spent.
"""

from collections.abc import Callable

import flax.struct
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from fedsvp_jax.core.settings import Settings, setting
from fedsvp_jax.core.structs import Array, Number

from .base import Law, Mechanism, chain
from .calibration import check_calibration, scaled_claim
from .clipping import make_clipping
from .config import MechanismConfig, concrete


@flax.struct.dataclass(frozen=True)
class TimeVaryingSettings(Settings):
    """Settings of time_varying."""

    decay: float = setting(
        0.995,
        "Theta, factor of the noise from round to round.",
        above=0,
        at_most=1,
        traced=True,
    )


@flax.struct.dataclass(frozen=True)
class DpaSettings(Settings):
    """Settings of dpa."""

    contraction: float = setting(
        0.98,
        "c, factor by which the error shrinks per round, which sets the "
        "schedule of the noise.",
        above=0,
        at_most=1,
        traced=True,
    )


def _log_rate(rate: Number) -> Array:
    """ln(rate), () float32. A number's is taken in float64: near 1, float32 has lost
    the digits already (ln .995 would be off by 6e-6)."""
    number = concrete(rate)
    if number is None:
        return jnp.log(jnp.float32(rate))
    return jnp.asarray(np.log(number), jnp.float32)


def _log_mean_exp(values: Array) -> Array:
    return logsumexp(values) - jnp.log(jnp.float32(len(values)))


def time_varying_factor(num_rounds: int, decay: Number, round_num: Array) -> Array:
    """σ_t/σ_c = θ^t·sqrt(Σ_s θ^(−2s)/T), t and s from 0. Shape of `round_num`.

    Reconstructed from the abstract of arXiv 2303.04274: a geometric series in the
    round, normalised here to the budget of T uploads at σ_c. In logarithms, since
    θ^(−2t) leaves float32 at T = 400 for θ < 0.9.

    Args:
      num_rounds: T. decay: θ in (0, 1]. round_num: t.
    """
    rate = _log_rate(decay)
    first = 0.5 * _log_mean_exp(-2.0 * rate * jnp.arange(num_rounds, dtype=jnp.float32))
    return jnp.exp(first + rate * jnp.float32(round_num))


def dpa_factor(num_rounds: int, contraction: Number, round_num: Array) -> Array:
    """σ_t/σ_c = sqrt(Σ_s √a_s/(T·√a_t)), a_t = c^(T−1−t). Shape of `round_num`.

    It minimises Σ_t a_t σ_t², the final error that a contraction by c a round
    leaves, subject to Σ_t 1/σ_t² = T/σ_c² (Lagrange). Equal to `time_varying_factor`
    with θ = c^(1/4). Reconstructed from the abstract of arXiv 2308.01139.

    Args:
      num_rounds: T. contraction: c in (0, 1]. round_num: t, from 0.
    """
    rate = _log_rate(contraction)

    def log_weight(t: Array) -> Array:
        return rate * (float(num_rounds) - 1.0 - t)

    mean = _log_mean_exp(0.5 * log_weight(jnp.arange(num_rounds, dtype=jnp.float32)))
    return jnp.exp(0.5 * (mean - 0.5 * log_weight(jnp.float32(round_num))))


def _scheduled(
    config: MechanismConfig, factor: Callable[..., Array], rate: Number
) -> Mechanism:
    """z_t = z·factor(t).

    z is that of (ε, δ) by `--calibration` (`calibration.base_multiplier`), and an
    upload's claim that of z_t (`calibration.scaled_claim`).
    """
    check_calibration(config)
    law = Law(
        lambda _ratio, t: scaled_claim(config, factor(config.num_rounds, rate, t)),
        any_epsilon=config.calibration == "analytic",
        num_rounds=config.num_rounds,
    )
    return chain(make_clipping(config), law)


def make_time_varying(config: MechanismConfig) -> Mechanism:
    """Time-Varying DP, a reconstruction: z_t = z·σ_t/σ_c."""
    return _scheduled(config, time_varying_factor, config.settings.decay)


def make_dpa(config: MechanismConfig) -> Mechanism:
    """Dynamic privacy allocation, a reconstruction: z_t = z·σ_t/σ_c."""
    return _scheduled(config, dpa_factor, config.settings.contraction)
