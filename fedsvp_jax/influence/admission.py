"""Passes of the filter over a run: their number and their summary."""

from typing import Any

import numpy as np

from fedsvp_jax.influence.settings import FilterSettings


def num_passes(settings: FilterSettings, rounds: int) -> int:
    """The number of the filter's passes in so many rounds."""
    match settings.influence_filter:
        case "none":
            return 0
        case "join":
            return 1
        case _:
            return -(-rounds // settings.influence_every)


def summary(
    settings: FilterSettings, corrupted: np.ndarray, admitted: np.ndarray
) -> dict[str, Any]:
    """The entries of summary.json on corrupted clients and on the filter.

    Args:
      settings: the filter's; with `influence_filter` none only the corrupted clients
        are told.
      corrupted: (M,) bool.
      admitted: (M,) bool: clients that the last pass did not reject.
    """
    summary: dict[str, Any] = {"corrupted_clients": np.flatnonzero(corrupted)}
    if settings.influence_filter != "none":
        summary["rejected_clients"] = np.flatnonzero(~admitted)
    return summary
