"""Attacks that show what an upload reveals; each defines what its adversary sees."""

from fedsvp_jax.attacks.frechet import frechet_distance, kernel_distance
from fedsvp_jax.attacks.noise_scale import (
    RecoveredRatio,
    estimate_noise_std,
    recover_contribution_ratio,
)

__all__ = [
    "RecoveredRatio",
    "estimate_noise_std",
    "frechet_distance",
    "kernel_distance",
    "recover_contribution_ratio",
]
