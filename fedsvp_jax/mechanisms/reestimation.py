"""Sensitivity re-estimation: the clip follows the norms of past updates.

A reconstruction from the abstract of Xue et al., IEEE TIFS 2023; no public code.
"""

import dataclasses
from typing import Any

import flax.struct
import jax.numpy as jnp
import optax

from fedsvp_jax.core.settings import Settings, setting
from fedsvp_jax.core.structs import Array, MechanismState, NoiseInfo, Number, Params
from fedsvp_jax.core.tree import l2_norm, num_parameters

from . import base, calibration, clipping, noise
from .config import MechanismConfig

_LEAST_PART = 1e-6  # of C: a client that did not move keeps a positive clip (ours)


@flax.struct.dataclass(frozen=True)
class ReestimationSettings(Settings):
    """Settings of reestimation."""

    norm_mix: float = setting(
        0.5,
        "Gamma, weight of the client's own past norm in its clip.",
        at_least=0,
        at_most=1,
        traced=True,
    )


def reestimated_clip(
    l2_norm_clip: Number, norm_mix: Number, local_norm: Number, global_norm: Number
) -> Array:
    """Ĉ = min(C, γ·‖last local update‖ + (1 − γ)·h), () float32.

    Args:
      l2_norm_clip: C. norm_mix: γ in [0, 1]. local_norm: of this client's update when
        it last took part. global_norm: h, see `denoised_norm`.
    """
    limit = jnp.float32(l2_norm_clip)
    share = jnp.float32(norm_mix)
    mixed = share * jnp.float32(local_norm)
    mixed += (1.0 - share) * jnp.float32(global_norm)
    return jnp.clip(mixed, _LEAST_PART * limit, limit)


def denoised_norm(step: Params, aggregate_std: Number) -> Array:
    """h, h² = max(0, ‖w̃^t − w̃^(t−1)‖² − d·σ_agg²), () float32.

    Args:
      step: the global model's last move, noise included; d numbers.
      aggregate_std: σ_agg, std of the noise in the average.
    """
    noise_square = jnp.square(jnp.float32(aggregate_std))
    noise_square *= float(num_parameters(step))
    return jnp.sqrt(jnp.maximum(jnp.square(l2_norm(step)) - noise_square, 0.0))


def make_reestimation(config: MechanismConfig) -> base.Mechanism:
    """Clip the update to Ĉ, then σ = z·Δ(Ĉ): 2Ĉ/|D| under `paper`.

    z is that of (ε, δ) by `--calibration` (`calibration.base_multiplier`).
    State: each client's last norm and the server's h; both start at C, so the
    first clip is C. Under `update_clip` Δ is Ĉ or 2Ĉ. Ĉ
    follows the client's own past norm, which no noise hides, so the claim is
    nominal under either. σ_agg assumes equal weights: Σσ_i²/K² over the cohort.

    Raises:
      ValueError: as `check_clips_update`.
    """
    calibration.check_calibration(config)
    clipping.check_clips_update(config, "reestimation")
    limit = jnp.float32(config.l2_norm_clip)

    def update(
        updates: Params,
        state: MechanismState,
        *,
        key: Array,
        num_examples: Array,
        **_: Any,
    ) -> base.Noised:
        clip = reestimated_clip(
            limit,
            config.settings.norm_mix,
            state.clients["last_norm"],
            state.shared["global_norm"],
        )
        rescaled = clipping.make_clipping(config.replace(l2_norm_clip=clip))  # type: ignore[attr-defined]
        last_norm = l2_norm(updates)
        clipped = noise.clip_into_ball(updates, clip)
        upload_noise = calibration.scaled_claim(config, 1.0)
        bound = rescaled.bound(num_examples)
        noised, info = base.noised_upload(
            clipped,
            upload_noise,
            std=upload_noise.noise_multiplier * bound,
            sensitivity=bound,
            at_upload=True,
            key=key,
        )
        memory = dataclasses.replace(state, clients={"last_norm": last_norm})
        return noised, memory, info

    def server(
        params_after: Params,
        params_before: Params,
        state: MechanismState,
        *,
        infos: NoiseInfo,
        valid: Array,
        **_: Any,
    ) -> tuple[Params, MechanismState]:
        uploads = base.num_uploads(valid)
        variances = jnp.where(valid, jnp.square(infos.noise_std), 0.0)
        step = optax.tree.sub(params_after, params_before)
        norm = denoised_norm(step, jnp.sqrt(jnp.sum(variances)) / uploads)
        return params_after, dataclasses.replace(state, shared={"global_norm": norm})

    return base.Mechanism(
        init=lambda num_clients: MechanismState(
            clients={"last_norm": jnp.full(num_clients, limit)},
            shared={"global_norm": limit},
        ),
        update=update,
        server=server,
        basis=base.claim_of(
            clipping.make_clipping(config),
            "the clip follows the client's own past norm, which no noise hides",
            proved=False,
        )._replace(client_swap=None),
        least_multiplier=calibration.base_multiplier(config),
        most_epsilon=jnp.float32(config.epsilon),
        most_delta=jnp.float32(config.delta),
    )
