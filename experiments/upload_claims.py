"""What is claimed of one upload, as results keep it and as tables show it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsvp_jax.accounting import promises
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.report import labels, spent

NOTHING = dict.fromkeys(("epsilon", "delta", "status", "central"))


def kept(
    mechanism: Mechanism, epsilon: float, delta: float, *, keeps_stats: bool
) -> dict[str, Any]:
    """`epsilon`, `delta`, `status` and `central`; None where nothing is claimed.

    Args:
      mechanism: that made the upload.
      epsilon: claimed for it.
      delta: claimed for it.
      keeps_stats: whether the model uploads statistics (BatchNorm's) too.
    """
    status = promises.upload_status(mechanism, epsilon, delta, keeps_stats=keeps_stats)
    if status is None:
        return dict(NOTHING)
    central = mechanism.claim.central
    return {"epsilon": epsilon, "delta": delta, "status": status, "central": central}


def least_noised(mechanism: Mechanism, *, keeps_stats: bool) -> dict[str, Any]:
    """`kept` of the upload that a mechanism may make with the least noise."""
    epsilon, delta = (
        float(np.max(most)) for most in (mechanism.most_epsilon, mechanism.most_delta)
    )
    return kept(mechanism, epsilon, delta, keeps_stats=keeps_stats)


def shown(row: Mapping[str, Any]) -> str:
    """`0.1 at δ = 1e-05 (nominal)`; a dash where nothing is claimed.

    A claim about the cohort's average is called that: it is none about the upload.

    Args:
      row: with what `kept` gives.
    """
    if row["status"] is None:
        return labels.significant(None)
    epsilon, delta = (labels.significant(row[name], 3) for name in ("epsilon", "delta"))
    average = " of the average" if row["central"] else ""
    return spent.marked(f"{epsilon} at δ = {delta}{average}", row["status"])


def of_curve(curve: dict[str, Any]) -> str:
    """What tells the curves of a panel apart."""
    if curve["status"] is None:
        return "no noise"
    return f"ε = {shown(curve)}"
