"""A run's promises: what an upload may cost before it is made, and what was spent."""

import math
from typing import Any

import numpy as np

from fedsvp_jax import accounting
from fedsvp_jax.accounting import Ledger
from fedsvp_jax.mechanisms import (
    Mechanism,
    MechanismConfig,
    spends_release_budget,
)
from fedsvp_jax.mechanisms.base import NOTHING_ELSE
from fedsvp_jax.settings import PromiseSettings

_FILTER_TOO = (
    "uploads alone are counted: the influence filter's contributions and votes leave "
    "the client too, and are counted apart"
)
NO_CAP = int(np.iinfo(np.int32).max)


def release_epsilon(config: MechanismConfig, mechanism: Mechanism) -> float:
    """The budget that one upload spends on telling R; 0 where none is told."""
    told = mechanism.needs_contribution and spends_release_budget(config)
    return float(config.release_epsilon) if told else 0.0


def upload_cap(
    promise: PromiseSettings, config: MechanismConfig, mechanism: Mechanism
) -> int:
    """How often one client may upload within `promise.total_epsilon`.

    No more than once in each of the run's rounds; `NO_CAP` without a promise.

    Args:
      promise: ε of the run and how it is counted.
      config: the mechanism's settings, concrete.
      mechanism: made from them.

    Raises:
      ValueError: the mechanism adds no noise, or one upload is too much already.
    """
    if promise.total_epsilon is None:
        return NO_CAP
    multiplier = float(mechanism.least_multiplier)
    if not multiplier > 0:
        raise ValueError(
            f"total_epsilon = {promise.total_epsilon} cannot be promised: the "
            "mechanism adds no noise in proportion to a sensitivity"
        )
    cap = accounting.max_uploads(
        promise.total_epsilon,
        method=promise.total_accounting,
        noise_multiplier=multiplier,
        delta=promise.target_delta,
        upload_epsilon=float(mechanism.most_epsilon),
        upload_delta=float(mechanism.most_delta),
        release_epsilon=release_epsilon(config, mechanism),
        most=config.num_rounds,
    )
    if cap < 1 and promise.total_accounting == "basic" and mechanism.most_delta >= 1:
        raise ValueError(
            "total_epsilon cannot be promised by basic composition: one upload claims "
            f"δ = {float(mechanism.most_delta):.3g}; a smaller --delta is needed"
        )
    if cap < 1:
        raise ValueError(
            f"total_epsilon = {promise.total_epsilon} is less than one upload costs by "
            f"{promise.total_accounting}; raise it or add noise (smaller --epsilon)"
        )
    return cap


def new_ledger(
    mechanism: Mechanism, num_clients: int, *, keeps_stats: bool, colluders: int = 1
) -> Ledger:
    """An empty ledger; nominal when the claim is, or when statistics leave un-noised.

    Args:
      mechanism: whose claim the ledger counts.
      num_clients: M.
      keeps_stats: the model uploads BatchNorm's statistics beside its parameters.
      colluders: h, clients who pool what they know.
    """
    proved = mechanism.claim.proved and not keeps_stats
    central = mechanism.claim.central
    return Ledger(num_clients, proved=proved, colluders=colluders, central=central)


def epsilon_spent(
    ledger: Ledger, target_delta: float, *, central: bool, last: bool
) -> dict[str, float]:
    """The most that any client has spent, by accounting.

    Against the server, or where the mechanism's claim is about the average alone
    (`central`) against an outside observer. PLD, slow to compose, in the `last`
    round only.
    """
    view = "observer" if central else "server"
    spent = {"basic": ledger.epsilon_spent("basic", target_delta)}
    for method in ("rdp", "pld") if last else ("rdp",):
        spent[method] = ledger.epsilon_spent(method, target_delta, view=view)
    return spent


def status(
    ledger: Ledger,
    mechanism: Mechanism,
    spent: dict[str, float],
    *,
    filtered: bool = False,
) -> dict[str, str] | None:
    """Whether each ε of `epsilon_spent` is "proved" or "nominal", as guarantees are.

    Args:
      ledger: what was applied.
      mechanism: whose claim the ledger counts.
      spent: ε by accounting, of the ledger.
      filtered: whether the influence filter runs; nothing is proved then.

    Returns:
      The status by accounting; None where the mechanism claims nothing.
    """
    claim = mechanism.claim
    if claim.relation == "none":
        return None
    basic = accounting.guarantees(
        ledger,
        0.5,  # read by other methods than basic
        relation=claim.relation,
        assumptions=claim.assumptions,
        central=claim.central,
        against_server=claim.against_server,
        any_epsilon=claim.any_epsilon,
        methods=(),
    )
    proved = {
        method: ledger.proved and math.isfinite(value)
        for method, value in spent.items()
    }
    proved["basic"] = any(row.proved for row in basic)
    return {
        name: "proved" if proved[name] and not filtered else "nominal" for name in spent
    }


def summary(
    promise: PromiseSettings,
    config: MechanismConfig,
    ledger: Ledger,
    mechanism: Mechanism,
    *,
    data_assumptions: str,
    filtered: bool = False,
    equal_weights: bool = False,
) -> dict[str, Any]:
    """What summary.json says of privacy: spent, by accounting and by adversary.

    Args:
      promise: ε of the run and how it is counted.
      config: the mechanism's settings, concrete.
      ledger: of the run.
      mechanism: made from the settings.
      data_assumptions: what dealing and splitting the data ask of two neighbours,
        in words; it joins the claim's assumptions in every row.
      filtered: whether the influence filter ran. Its contributions and votes leave the
        clients too, so no row about uploads alone is proved then, and cohorts are no
        uniform draw of all clients.
      equal_weights: whether every client weighs the same in every cohort that may be
        drawn; amplification by sampling is claimed only then. The cohorts that were
        drawn do not tell.
    """
    delta = promise.target_delta
    assumptions = mechanism.claim.assumptions
    if filtered:
        assumptions = assumptions.replace(NOTHING_ELSE, _FILTER_TOO)
    rows = accounting.guarantees(
        ledger,
        delta,
        relation=mechanism.claim.relation,
        assumptions="; ".join(filter(None, (assumptions, data_assumptions))),
        central=mechanism.claim.central,
        against_server=mechanism.claim.against_server,
        client_swap=mechanism.claim.client_swap,
        any_epsilon=mechanism.claim.any_epsilon,
        secret_cohorts=(
            equal_weights and promise.total_epsilon is None and not filtered
        ),
    )
    return {
        "epsilon_spent": epsilon_spent(
            ledger, delta, central=mechanism.claim.central, last=True
        ),
        "delta_spent": ledger.delta_spent(),
        "target_delta": delta,
        "most_uploads": int(ledger.uploads.max()),
        "release_epsilon": release_epsilon(config, mechanism),
        "guarantees": [
            row._asdict()
            | {"status": "proved" if row.proved and not filtered else "nominal"}
            for row in rows
            if mechanism.claim.relation != "none" or not math.isinf(row.epsilon)
        ],
    }
