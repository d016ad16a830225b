"""Passes of the filter over a run: how many, what they cost, what is kept of them."""

from typing import Any

import numpy as np

from fedsvp_jax.accounting import FilterCost
from fedsvp_jax.config import AccountedSettings
from fedsvp_jax.filter_settings import FilterSettings
from fedsvp_jax.influence import privacy
from fedsvp_jax.influence.lazy import Verdict
from fedsvp_jax.influence.threshold import filtration


def num_passes(settings: FilterSettings, rounds: int) -> int:
    """How often the filter runs in so many rounds."""
    match settings.influence_filter:
        case "none":
            return 0
        case "join":
            return 1
        case _:
            return -(-rounds // settings.influence_every)


def planned_cost(config: AccountedSettings) -> FilterCost:
    """What the planned passes of a run cost."""
    return privacy.filter_cost(
        config,
        num_participants=config.num_clients,
        delta=config.target_delta,
        passes=num_passes(config, config.num_rounds),
    )


def verdict_record(verdict: Verdict, cost: FilterCost) -> dict[str, Any]:
    """What metrics.jsonl keeps of a pass: who was rejected, why, and what it cost."""
    return {
        "rejected": np.flatnonzero(np.asarray(verdict.rejected)),
        "scores": np.asarray(verdict.scores),
        "threshold": np.asarray(verdict.threshold)[()],
        "gap": np.asarray(verdict.high - verdict.low)[()],
        "required_gap": np.asarray(verdict.required_gap)[()],
        "cost": cost._asdict(),
    }


def summary(
    settings: FilterSettings,
    corrupted: np.ndarray,
    admitted: np.ndarray,
    *,
    rounds: int,
    delta: float,
) -> dict[str, Any]:
    """What summary.json says of corrupted clients and of the filter.

    Args:
      settings: the filter's; with `influence_filter` none only the corrupted clients
        are told.
      corrupted: (M,) bool.
      admitted: (M,) bool: clients that the last pass did not reject.
      rounds: rounds that were run.
      delta: δ at which the filter's cost in privacy is stated.
    """
    summary: dict[str, Any] = {"corrupted_clients": np.flatnonzero(corrupted)}
    if settings.influence_filter != "none":
        told = privacy.guarantees(
            settings,
            num_participants=len(admitted),
            delta=delta,
            passes=num_passes(settings, rounds),
        )
        summary |= {
            "rejected_clients": np.flatnonzero(~admitted),
            "filtration": filtration(~admitted, corrupted)._asdict(),
            "influence_guarantees": told._asdict(),
        }
    return summary
