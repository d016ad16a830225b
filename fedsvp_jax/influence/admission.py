"""What summary.json says of corrupted clients and of the filter."""

from typing import Any

import numpy as np

from fedsvp_jax.influence.settings import FilterSettings


def summary(
    settings: FilterSettings, corrupted: np.ndarray, admitted: np.ndarray
) -> dict[str, Any]:
    """The entries of summary.json on corrupted clients and on the filter.

    Args:
      settings: the filter's; with `influence_filter` none only the corrupted clients
        are told.
      corrupted: (M,) bool.
      admitted: (M,) bool: clients that the filter did not reject.
    """
    summary: dict[str, Any] = {"corrupted_clients": np.flatnonzero(corrupted)}
    if settings.influence_filter != "none":
        summary["rejected_clients"] = np.flatnonzero(~admitted)
    return summary
