"""Settings of the baselines, whose noise `fedsvp_jax.baselines` makes."""

import flax.struct

from fedsvp_jax.core.settings import Settings, setting


@flax.struct.dataclass(frozen=True)
class NbaflSettings(Settings):
    """Settings of nbafl."""

    exposures: float = setting(
        1.0,
        "L, uploads that --epsilon is shared over.",
        above=0,
        traced=True,
    )
    downlink_noise: bool = setting(
        False, "Add the noise of the downlink to the broadcast model too."
    )


@flax.struct.dataclass(frozen=True)
class ScheduleSettings(Settings):
    """Settings of both schedules."""

    schedule_level: str = setting(
        "budget",
        "Level of a schedule's noise. budget: its T uploads spend what T uploads of "
        "constant noise spend; first_round: it starts at the constant noise and falls "
        "below it, so that later uploads spend more than epsilon.",
        choices=("budget", "first_round"),
    )


@flax.struct.dataclass(frozen=True)
class TimeVaryingSettings(ScheduleSettings):
    """Settings of time_varying."""

    decay: float = setting(
        0.995,
        "Theta, factor of the noise from round to round.",
        above=0,
        at_most=1,
        traced=True,
    )


@flax.struct.dataclass(frozen=True)
class DpaSettings(ScheduleSettings):
    """Settings of dpa."""

    contraction: float = setting(
        0.98,
        "c, factor by which the error shrinks per round, which sets the "
        "schedule of the noise.",
        above=0,
        at_most=1,
        traced=True,
    )


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
    noise_bands: int = setting(
        1,
        "b: correlate the noise of the rounds by a banded matrix, so that much of it "
        "cancels in the model (1: independent noise). The server adds it and is "
        "trusted. Needs --cohorts=cyclic, and b rounds or more between two uploads of "
        "a client: b at most num_clients/cohort_size.",
        at_least=1,
    )
