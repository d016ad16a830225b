"""Shapley values of the attributes of a client."""

from .values import (
    MAX_EXACT,
    MOST_DESIGNED,
    SampledValues,
    ShapleySettings,
    check_settings,
    contribution_ratio,
    contribution_ratio_with_flags,
    exact_shapley,
    sampled_shapley,
)

__all__ = [
    "MAX_EXACT",
    "MOST_DESIGNED",
    "SampledValues",
    "ShapleySettings",
    "check_settings",
    "contribution_ratio",
    "contribution_ratio_with_flags",
    "exact_shapley",
    "sampled_shapley",
]
