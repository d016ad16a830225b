"""NbAFL: noise before aggregation, on the uplink and on the downlink.

Source: Wei et al. 2020, "Federated learning with differential privacy: algorithms
and performance analysis", Algorithm 1, Theorem 1 (all clients take part) and the
K-of-N scheduling theorem.
"""

import math
from typing import Any

import flax.struct
import jax.numpy as jnp

from fedsvp_jax.core.settings import Settings, setting
from fedsvp_jax.core.structs import Array, MechanismState, Params

from . import base, calibration, noise
from .clipping import make_clipping, scaled_size
from .config import MechanismConfig


@flax.struct.dataclass(frozen=True)
class NbaflSettings(Settings):
    """Settings of nbafl."""

    exposures: float = setting(
        1.0, "L, uploads that --epsilon is shared over.", above=0, traced=True
    )
    downlink_noise: bool = setting(
        False, "Add the noise of the downlink to the broadcast model too."
    )


def nbafl_downlink_std(config: MechanismConfig) -> Array:
    """σ_D, the server's noise on the broadcast model. () float32.

    All N clients per round (K = N):
        σ_D = 2cC·sqrt(T² − L²N)/(mNε) if T > L·sqrt(N), else 0.
    K of N clients per round:
        γ = −ln(1 − K/N + (K/N)·e^(−ε/(L·sqrt(K))))
        b = −(T/ε)·ln(1 − N/K + (N/K)·e^(−ε/T))
        σ_D = 2cC·sqrt(T²/b² − L²K)/(mKε) if T > ε/γ, else 0.
    At K = N the second gives the first. The logarithm in b can lie outside its
    domain, but not where T > ε/γ holds, which is therefore tested first. log1p and
    expm1 keep the digits that 1 − N/K + (N/K)·e^(−ε/T) loses in float32.

    T, N, K, C and δ are the config's, ε covers L uploads (`exposures`) of one client,
    and m is the number of the smallest client's training examples.
    """
    eps = jnp.float32(config.epsilon)
    exposure = jnp.float32(config.settings.exposures)
    size = jnp.float32(scaled_size(config, config.min_num_examples))
    t, n, k = map(float, (config.num_rounds, config.num_clients, config.cohort_size))
    gamma = -jnp.log1p((k / n) * jnp.expm1(-eps / (exposure * math.sqrt(k))))
    needed = t > eps / gamma
    shrink = jnp.where(needed, (n / k) * jnp.expm1(-eps / t), -0.5)
    b = -(t / eps) * jnp.log1p(shrink)
    gap = jnp.square(t / b) - jnp.square(exposure) * k
    clip = jnp.float32(config.l2_norm_clip)
    scale = 2.0 * calibration.classical_constant(config.delta) * clip
    std = scale * jnp.sqrt(jnp.maximum(gap, 0.0)) / (size * k * eps)
    return jnp.where(needed, std, 0.0)


def make_nbafl(config: MechanismConfig) -> base.Mechanism:
    """NbAFL: σ_U = z·L·Δ_U on each upload, σ_D on the broadcast if asked for.

    z is that of (ε, δ) by `--calibration` (`calibration.base_multiplier`). One upload's
    claim is that of z·L (`calibration.scaled_claim`): by the classical formula ε/L, so
    that L of them spend ε.
    Δ_U = 2C/m under `paper`, the clipping's own bound otherwise: `weight_clip` clips
    the uploaded weights to C as one vector, as Algorithm 1 does.
    """
    calibration.check_calibration(config)
    clipping = make_clipping(config)
    base_bound = clipping.bound
    if config.clip.bound_unproved:
        clipping = clipping._replace(
            bound=lambda num_examples: base_bound(config.min_num_examples)
        )

    def server(
        params: Params, before: Params, state: MechanismState, *, key: Array, **_: Any
    ) -> tuple[Params, MechanismState]:
        std = nbafl_downlink_std(config)
        return noise.add_gaussian_noise(params, std, key=key)[0], state

    law = base.Law(
        lambda _ratio, _round: calibration.scaled_claim(
            config, config.settings.exposures
        ),
        any_epsilon=config.calibration == "analytic",
    )
    mechanism = base.chain(clipping, law)
    if not config.settings.downlink_noise:
        return mechanism
    return mechanism._replace(server=server, follows_num_rounds=True)
