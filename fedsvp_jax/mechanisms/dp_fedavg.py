"""Central DP-FedAvg: clipped updates, noise on the cohort's sum, equal weights.

Sources: McMahan et al. 2018 (arXiv 1710.06963), Algorithm 1; adaptive clipping:
Andrew et al. 2021 (arXiv 1905.03871), Algorithm 1.
"""

import dataclasses
import math

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.mechanisms import base
from fedsvp_jax.mechanisms.base import Mechanism
from fedsvp_jax.mechanisms.calibration import concentrated_epsilon
from fedsvp_jax.mechanisms.config import Leaf, MechanismConfig, concrete
from fedsvp_jax.mechanisms.sensitivity import clip_update
from fedsvp_jax.settings import LEAST_CLIP, Settings, setting
from fedsvp_jax.structs import Array, MechanismState, NoiseInfo, Params


@flax.struct.dataclass(frozen=True)
class DpFedavgSettings(Settings):
    """Settings of dp_fedavg."""

    noise_multiplier: float = setting(
        1.0,
        "z, noise std of the summed update divided by the clip. "
        "--epsilon is ignored by dp_fedavg.",
        at_least=0,
        traced=True,
    )
    adaptive_clip: bool = setting(
        False,
        "Let the clip follow a quantile of the updates' norms (Andrew et al. 2021).",
    )
    clip_quantile: float = setting(
        0.5,
        "Share of updates that the adaptive clip leaves whole.",
        above=0,
        below=1,
        traced=True,
        needs=("adaptive_clip", (True,)),
    )
    clip_learning_rate: float = setting(
        0.2,
        "Step size of the adaptive clip.",
        above=0,
        traced=True,
        needs=("adaptive_clip", (True,)),
    )
    count_noise_std: float = setting(
        2.0,
        "Noise std on the count of clipped updates, which steers the "
        "adaptive clip; greater than the noise multiplier.",
        above=0,
        traced=True,
        needs=("adaptive_clip", (True,)),
    )


def update_multiplier(noise_multiplier: Leaf, count_noise_std: Leaf) -> Array:
    """z_Δ = (z⁻² − σ_b⁻²)^(−1/2), () float32.

    Noise z_Δ·S on the sum and σ_b on the count are together one Gaussian of multiplier
    z, since a client moves the sum by S and the count by 1: a zero update counts as one
    that was not clipped.

    Source: Andrew et al. 2021, Theorem 1, with 1 in the place of 1/2. There an absent
    client counts 1/2, which the server cannot know of a client that sends zeros.
    """
    z = jnp.asarray(noise_multiplier, jnp.float32)
    count = jnp.asarray(count_noise_std, jnp.float32)
    return z / jnp.sqrt(1.0 - jnp.square(z / count))


def adapted_clip(
    clip: Leaf, unclipped_share: Leaf, quantile: Leaf, learning_rate: Leaf
) -> Array:
    """S·exp(−η_C(b̃ − γ)), but at least `LEAST_CLIP`. () float32.

    Args:
      clip: S. unclipped_share: b̃, noised share of updates within S. quantile: γ,
        the share aimed at. learning_rate: η_C.

    Source: Andrew et al. 2021, sec. 2.1 (the geometric update).
    """
    gap = jnp.asarray(unclipped_share, jnp.float32) - jnp.asarray(quantile, jnp.float32)
    rate = jnp.asarray(learning_rate, jnp.float32)
    moved = jnp.asarray(clip, jnp.float32) * jnp.exp(-rate * gap)
    return jnp.maximum(moved, LEAST_CLIP)


def make_dp_fedavg(config: MechanismConfig) -> Mechanism:
    """Central DP-FedAvg: each of K clients adds z·S/√K, so the sum carries z·S.

    One client against none (its update against zero) moves the sum by at most S,
    whatever `sensitivity` says: the mechanism clips the update to S itself. The
    claim is the round's, against those who see the sum, by zCDP at δ; NoiseInfo's
    noise_multiplier is z/√K, the part of one upload. With the
    adaptive clip the server sees who was clipped and must be trusted; the claimed z
    then covers sum and count together (`update_multiplier`).

    Raises:
      ValueError: sensitivity `weight_clip` or `per_example`; or an adaptive clip
        with count_noise_std ≤ noise_multiplier, where no budget is left.
    """
    if config.sensitivity not in ("paper", "update_clip"):
        raise ValueError(
            "sensitivity must be paper or update_clip for dp_fedavg, which clips the "
            f"update itself, got {config.sensitivity!r}"
        )
    settings: DpFedavgSettings = config.settings
    z = jnp.asarray(settings.noise_multiplier, jnp.float32)
    on_sum = z
    if settings.adaptive_clip:
        total = concrete(settings.noise_multiplier)
        count = concrete(settings.count_noise_std)
        if total is not None and count is not None and np.any(count <= total):
            raise ValueError(
                "count_noise_std must be greater than noise_multiplier with "
                f"adaptive_clip, got {settings.count_noise_std} at noise_multiplier "
                f"{settings.noise_multiplier}"
            )
        on_sum = update_multiplier(settings.noise_multiplier, settings.count_noise_std)
    root_cohort = math.sqrt(config.cohort_size)

    def init(num_clients: int) -> MechanismState:
        del num_clients
        clip = jnp.asarray(config.l2_norm_clip, jnp.float32)
        return MechanismState(clients={}, shared={"clip": clip})

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
        del num_examples, contribution_ratio, round_num
        clip = state.shared["clip"]
        updates, clipped = clip_update(updates, params, clip)
        noisy = z > 0
        upload_noise = base.claimed(
            z / root_cohort,
            concentrated_epsilon(z, config.delta),
            jnp.where(noisy, jnp.asarray(config.delta, jnp.float32), 0.0),
        )
        noised, info = base.noised_upload(
            updates,
            upload_noise,
            std=on_sum / root_cohort * clip,
            sensitivity=clip,
            clipped=clipped,
            at_upload=True,
            key=key,
        )
        return noised, state, info

    def server(
        params_after: Params,
        params_before: Params,
        state: MechanismState,
        *,
        key: Array,
        round_num: Array,
        infos: NoiseInfo,
        valid: Array,
    ) -> tuple[Params, MechanismState]:
        del params_before, round_num
        uploads = jnp.maximum(jnp.sum(valid.astype(jnp.float32)), 1.0)
        within = jnp.sum(jnp.where(valid, 1.0 - infos.clipped, 0.0))
        count_noise = jnp.asarray(settings.count_noise_std, jnp.float32)
        count_noise = count_noise * jax.random.normal(key, (), jnp.float32)
        clip = adapted_clip(
            state.shared["clip"],
            (within + count_noise) / uploads,
            settings.clip_quantile,
            settings.clip_learning_rate,
        )
        return params_after, dataclasses.replace(state, shared={"clip": clip})

    return Mechanism(
        init=init,
        update=update,
        server=server if settings.adaptive_clip else None,
        uniform_weights=True,
        claim=base.Claim(
            relation="add or remove a client (its update against zero)",
            proved=True,
            assumptions="every update is clipped to S; equal weights; each of the "
            f"cohort's clients adds its part of the noise; {base.NOTHING_ELSE}",
            central=True,
            against_server=not settings.adaptive_clip,
            client_swap=2.0,
            any_epsilon=True,
        ),
        least_multiplier=z,
        most_epsilon=concentrated_epsilon(z, config.delta),
        most_delta=jnp.asarray(config.delta, jnp.float32),
    )
