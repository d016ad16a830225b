"""Shapley values: of attributes within a client, of clients within a round."""

from .values import (
    MAX_EXACT,
    MOST_DESIGNED,
    ClientValueSettings,
    SampledValues,
    ShapleySettings,
    check_client_values,
    check_settings,
    contribution_ratio,
    contribution_ratio_with_flags,
    exact_shapley,
    sampled_shapley,
)

__all__ = [
    "MAX_EXACT",
    "MOST_DESIGNED",
    "ClientValueSettings",
    "SampledValues",
    "ShapleySettings",
    "check_client_values",
    "check_settings",
    "contribution_ratio",
    "contribution_ratio_with_flags",
    "exact_shapley",
    "sampled_shapley",
]
