"""Noise mechanisms: pairs of pure functions in one registry."""

from fedsvp_jax.mechanisms.base import (
    Basis,
    Mechanism,
    UploadNoise,
    nothing_private,
)
from fedsvp_jax.mechanisms.calibration import (
    analytic_multiplier,
    classical_multiplier,
    with_analytic_multiplier,
)
from fedsvp_jax.mechanisms.config import MechanismConfig
from fedsvp_jax.mechanisms.registry import (
    BuiltInSettings,
    current_name,
    epsilon_sets_noise,
    explained,
    make_mechanism,
    mechanism_label,
    mechanism_names,
    mechanism_settings,
    mechanism_summary,
    noise_setting,
    register_mechanism,
    unread_settings,
)
from fedsvp_jax.mechanisms.release import release_contribution, spends_release_budget
from fedsvp_jax.mechanisms.shapley_guided import guided_multiplier, risk_tolerance

__all__ = [
    "Basis",
    "BuiltInSettings",
    "Mechanism",
    "MechanismConfig",
    "UploadNoise",
    "analytic_multiplier",
    "classical_multiplier",
    "current_name",
    "epsilon_sets_noise",
    "explained",
    "guided_multiplier",
    "make_mechanism",
    "mechanism_label",
    "mechanism_names",
    "mechanism_settings",
    "mechanism_summary",
    "noise_setting",
    "nothing_private",
    "register_mechanism",
    "release_contribution",
    "risk_tolerance",
    "spends_release_budget",
    "unread_settings",
    "with_analytic_multiplier",
]
