"""Central DP-FedAvg: clipped updates, noise on the cohort's sum, equal weights.

Sources: McMahan et al. 2018 (arXiv 1710.06963), Algorithm 1; adaptive clipping:
Andrew et al. 2021 (arXiv 1905.03871), Algorithm 1; noise that is correlated over the
rounds: `correlated_noise`.
"""

import dataclasses
import math
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.core import prng
from fedsvp_jax.core.settings import LEAST_CLIP, Settings, setting
from fedsvp_jax.core.structs import Array, MechanismState, NoiseInfo, Number, Params
from fedsvp_jax.core.tree import num_parameters

from . import base, calibration, clipping, correlated_noise
from .config import MechanismConfig, concrete
from .grid import Grid
from .noise import add_vector, clip_into_ball

_ADAPTIVE = "adaptive_clip=True"


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
        needs=_ADAPTIVE,
    )
    clip_learning_rate: float = setting(
        0.2, "Step size of the adaptive clip.", above=0, traced=True, needs=_ADAPTIVE
    )
    count_noise_std: float = setting(
        2.0,
        "Noise std on the count of clipped updates, which steers the "
        "adaptive clip; greater than the noise multiplier.",
        above=0,
        traced=True,
        needs=_ADAPTIVE,
    )
    noise_bands: int = setting(
        1,
        "b: correlate the noise of the rounds by a banded matrix, so that much of it "
        "cancels in the model (1: independent noise). The server adds it and is "
        "trusted. Needs --cohorts=cyclic, and b rounds or more between two uploads of "
        "a client: b at most num_clients/cohort_size.",
        at_least=1,
    )


def update_multiplier(noise_multiplier: Number, count_noise_std: Number) -> Array:
    """z_Δ = (z⁻² − σ_b⁻²)^(−1/2), () float32.

    Noise z_Δ·S on the sum and σ_b on the count are together one Gaussian of multiplier
    z, since a client moves the sum by S and the count by 1: a zero update counts as one
    that was not clipped.

    Source: Andrew et al. 2021, Theorem 1, with 1 in the place of 1/2. There an absent
    client counts 1/2, which the server cannot know of a client that sends zeros.
    """
    z = jnp.float32(noise_multiplier)
    return z / jnp.sqrt(1.0 - jnp.square(z / jnp.float32(count_noise_std)))


def adapted_clip(
    clip: Number, unclipped_share: Number, quantile: Number, learning_rate: Number
) -> Array:
    """S·exp(−η_C(b̃ − γ)), but at least `LEAST_CLIP`. () float32.

    Args:
      clip: S. unclipped_share: b̃, noised share of updates within S. quantile: γ,
        the share aimed at. learning_rate: η_C.

    Source: Andrew et al. 2021, sec. 2.1 (the geometric update).
    """
    gap = jnp.float32(unclipped_share) - jnp.float32(quantile)
    rate = jnp.float32(learning_rate)
    return jnp.maximum(jnp.float32(clip) * jnp.exp(-rate * gap), LEAST_CLIP)


def make_dp_fedavg(config: MechanismConfig) -> base.Mechanism:
    """Central DP-FedAvg: each of K clients adds z·S/√K, so the sum carries z·S.

    One client against none (its update against zero) moves the sum by at most S,
    whatever `clipping` says: the mechanism clips the update to S itself. The
    claim is the round's, against those who see the sum, by zCDP at δ; NoiseInfo's
    noise_multiplier is z/√K, the part of one upload. With the
    adaptive clip the server sees who was clipped and must be trusted; the claimed z
    then covers sum and count together (`update_multiplier`).

    With noise_bands > 1 the trusted server adds z·S·y_t to the sum instead. Every
    upload then counts z/‖c‖, and NoiseInfo's noise_std is the share of one of K
    clients in what the server adds.

    Raises:
      ValueError: as `check_clips_update`; an adaptive clip with
        count_noise_std ≤ noise_multiplier, where no budget is left; or bands without
        cyclic cohorts, more of them than rounds between two uploads of a client, or
        with an adaptive clip.
    """
    clipping.check_clips_update(config, "dp_fedavg")
    settings: DpFedavgSettings = config.settings
    if settings.adaptive_clip:
        total = concrete(settings.noise_multiplier)
        count = concrete(settings.count_noise_std)
        if total is not None and count is not None and np.any(count <= total):
            raise ValueError(
                "count_noise_std must be greater than noise_multiplier with "
                f"adaptive_clip, got {settings.count_noise_std} at noise_multiplier "
                f"{settings.noise_multiplier}"
            )
    root_cohort = math.sqrt(config.cohort_size)
    correlated = settings.noise_bands > 1
    if correlated:
        _check_bands(config, settings)
        past = correlated_noise.inverse_coefficients(
            settings.noise_bands, config.num_rounds
        )

    bands = correlated_noise.band_coefficients(settings.noise_bands)
    length = np.float32(np.linalg.norm(bands))
    grid = None
    if config.noise_sampler == "discrete":
        grid = Grid(config.noise_bits, config.cohort_size, config.l2_norm_clip)

    def multiplier() -> Array:
        """z, made anew in each trace: JAX keeps a trace's calls on other numbers."""
        return jnp.float32(settings.noise_multiplier)

    def init(num_clients: int) -> MechanismState:
        shared = {"clip": jnp.float32(config.l2_norm_clip)}
        if correlated:  # filled in by the first round that has clients
            shared["key"] = jnp.zeros((2,), jnp.uint32)
        return MechanismState(clients={}, shared=shared)

    def update(
        updates: Params,
        state: MechanismState,
        *,
        key: Array,
        num_examples: Array,
        round_num: Array,
        **_: Any,
    ) -> base.Noised:
        clip = state.shared["clip"]
        clipped = clip_into_ball(updates, clip)
        z = on_sum = multiplier()
        counted = z / length
        if settings.adaptive_clip:
            on_sum = update_multiplier(z, settings.count_noise_std)
        upload_noise = base.claimed(
            counted / root_cohort,
            calibration.concentrated_epsilon(counted, config.delta),
            jnp.where(z > 0, jnp.float32(config.delta), 0.0),
        )
        std = on_sum / root_cohort * clip
        if correlated:
            std *= jnp.asarray(correlated_noise.growth(past), jnp.float32)[round_num]
        noised, info = base.noised_upload(
            clipped,
            upload_noise,
            std=std,
            sensitivity=clip,
            at_upload=not correlated,
            grid=grid,
            num_examples=num_examples,
            key=key,
        )
        if correlated:
            zero = jnp.float32(0)
            info = dataclasses.replace(info, noise_std=std, step_noise_std=zero)
        return noised, state, info

    def adapt_clip(
        params: Params,
        before: Params,
        state: MechanismState,
        *,
        key: Array,
        infos: NoiseInfo,
        valid: Array,
        **_: Any,
    ) -> tuple[Params, MechanismState]:
        uploads = base.num_uploads(valid)
        within = jnp.sum(jnp.where(valid, 1.0 - infos.clipped, 0.0))
        count_noise = jnp.float32(settings.count_noise_std) * prng.normal(key, 1)[0]
        clip = adapted_clip(
            state.shared["clip"],
            (within + count_noise) / uploads,
            settings.clip_quantile,
            settings.clip_learning_rate,
        )
        return params, dataclasses.replace(state, shared={"clip": clip})

    def add_correlated(
        params: Params,
        before: Params,
        state: MechanismState,
        *,
        key: Array,
        round_num: Array,
        valid: Array,
        **_: Any,
    ) -> tuple[Params, MechanismState]:
        clip, words = state.shared["clip"], jax.random.key_data(key)
        words = jnp.where(state.shared["key"].any(), state.shared["key"], words)
        noise = correlated_noise.round_noise(
            prng.key_of(words), round_num, past, size=num_parameters(params)
        )
        uploads = base.num_uploads(valid)
        scaled = add_vector(params, multiplier() * clip / uploads * noise)
        return scaled, dataclasses.replace(state, shared={"clip": clip, "key": words})

    server = adapt_clip if settings.adaptive_clip else None
    counted = multiplier() / length
    return base.Mechanism(
        init=init,
        update=update,
        server=add_correlated if correlated else server,
        uniform_weights=True,
        grid=grid,
        basis=base.Basis(
            relation="add or remove a client (its update against zero)",
            proved=True,
            assumptions="every update is clipped to S; equal weights; "
            + (
                "the server adds the noise, and no client takes part twice within "
                f"{settings.noise_bands} rounds"
                if correlated
                else "each of the cohort's clients adds its part of the noise"
            )
            + f"; {base.NOTHING_ELSE}",
            view="observer",
            against_server=not (settings.adaptive_clip or correlated),
            client_swap=2.0,
            any_epsilon=True,
        ),
        least_multiplier=counted,
        most_epsilon=calibration.concentrated_epsilon(counted, config.delta),
        most_delta=jnp.float32(config.delta),
    )


def _check_bands(config: MechanismConfig, settings: DpFedavgSettings) -> None:
    """Raises ValueError: a client could upload twice within b rounds."""
    spacing = config.num_clients // config.cohort_size
    if settings.adaptive_clip:
        raise ValueError(
            "noise_bands must be 1 with adaptive_clip, which changes what the noise is "
            f"in proportion to, got {settings.noise_bands}"
        )
    if config.cohorts != "cyclic":
        raise ValueError(
            f"noise_bands = {settings.noise_bands} needs cohorts=cyclic, in which a "
            f"client's uploads lie far apart, got cohorts={config.cohorts}"
        )
    if settings.noise_bands > spacing:
        raise ValueError(
            f"noise_bands must be at most {spacing}, the rounds from one upload of a "
            f"client to its next ({config.num_clients} clients in cohorts of "
            f"{config.cohort_size}), got {settings.noise_bands}"
        )
