"""Noise mechanisms: pairs of pure functions in one registry."""

from .base import Basis, Mechanism, nothing_private
from .calibration import analytic_multiplier, with_analytic_multiplier
from .config import MechanismConfig
from .registry import (
    BuiltInSettings,
    about,
    make_mechanism,
    mechanism_names,
    noise_setting,
    register_mechanism,
    unread_settings,
)
from .release import release_contribution
from .shapley_guided import guided_multiplier, risk_tolerance

__all__ = [
    "Basis",
    "BuiltInSettings",
    "Mechanism",
    "MechanismConfig",
    "about",
    "analytic_multiplier",
    "guided_multiplier",
    "make_mechanism",
    "mechanism_names",
    "noise_setting",
    "nothing_private",
    "register_mechanism",
    "release_contribution",
    "risk_tolerance",
    "unread_settings",
    "with_analytic_multiplier",
]
