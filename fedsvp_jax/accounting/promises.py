"""What was spent: the summary of a run, and the status of each ε in it."""

import math
from typing import Any

import numpy as np

from fedsvp_jax import accounting
from fedsvp_jax.accounting import Ledger
from fedsvp_jax.accounting.allowance import promised_delta, release_epsilon
from fedsvp_jax.accounting.events import ANY_CHANGE
from fedsvp_jax.accounting.guarantees import (
    Guarantee,
    adversary_name,
    basic_is_proved,
    claims_hold,
)
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig
from fedsvp_jax.mechanisms.base import NOTHING_ELSE

_FILTER_TOO = (
    "the influence filter's contributions and votes leave the client too, and are "
    f"counted here for {ANY_CHANGE}"
)
_TALLY = (
    "a tally: how often a client uploads follows the votes, so what was spent was not "
    "known before"
)
_PROMISED = "kept for every client, however often the others upload"


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
    return Ledger(
        num_clients,
        proved=proved,
        colluders=colluders,
        central=central,
        concentrated=mechanism.claim.concentrated,
        subsampling=mechanism.subsampling,
    )


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
) -> dict[str, str] | None:
    """Whether each ε of `epsilon_spent` is "proved" or "nominal", as guarantees are.

    Args:
      ledger: what was applied.
      mechanism: whose claim the ledger counts.
      spent: ε by accounting, of the ledger.

    Returns:
      The status by accounting; None where the mechanism claims nothing. With the
      influence filter all are nominal: the votes, and so private data, decide how
      often a client uploads. A promise is proved nevertheless, see `summary`.
    """
    claim = mechanism.claim
    if claim.relation == "none":
        return None
    proved = {
        method: ledger.proved and math.isfinite(value)
        for method, value in spent.items()
    }
    someone = claim.central or claim.against_server  # against whom claims are made
    proved["basic"] = someone and basic_is_proved(ledger, claim.any_epsilon)
    tally = ledger.filter_cost.passes > 0
    return {
        name: "proved" if proved[name] and not tally else "nominal" for name in spent
    }


def upload_status(
    mechanism: Mechanism, epsilon: float, delta: float, *, keeps_stats: bool
) -> str | None:
    """Whether the (ε, δ) claimed for one upload is "proved" or "nominal", by `status`.

    Args:
      mechanism: that claims it; None where it claims nothing.
      epsilon: claimed for the upload.
      delta: claimed for the upload.
      keeps_stats: as in `new_ledger`.
    """
    ledger = new_ledger(mechanism, 1, keeps_stats=keeps_stats)
    ledger.record(
        np.zeros(1, np.int64),
        round_num=1,
        noise_multiplier=np.zeros(1),  # basic composition reads the claim alone
        noise_std=np.zeros(1),
        epsilon=np.full(1, epsilon),
        delta=np.full(1, delta),
    )
    words = status(ledger, mechanism, {"basic": epsilon})
    return None if words is None else words["basic"]


def summary(
    promise: PromiseSettings,
    config: MechanismConfig,
    ledger: Ledger,
    mechanism: Mechanism,
    *,
    data_assumptions: str,
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
      equal_weights: whether every client weighs the same in every cohort that may be
        drawn; amplification by sampling is claimed only then. The cohorts that were
        drawn do not tell.
    """
    delta = promise.target_delta
    assumptions = mechanism.claim.assumptions
    filtered = ledger.filter_cost.passes > 0
    if filtered:
        assumptions = assumptions.replace(NOTHING_ELSE, _FILTER_TOO)
    assumptions = "; ".join(filter(None, (assumptions, data_assumptions)))
    rows = accounting.guarantees(
        ledger,
        delta,
        relation=mechanism.claim.relation,
        assumptions=assumptions,
        central=mechanism.claim.central,
        against_server=mechanism.claim.against_server,
        client_swap=mechanism.claim.client_swap,
        any_epsilon=mechanism.claim.any_epsilon,
        secret_cohorts=(
            equal_weights
            and promise.total_epsilon is None
            and config.max_uploads is None
            and not filtered
        ),
    )
    if filtered:
        rows = [
            row._replace(proved=False, assumptions=f"{row.assumptions}; {_TALLY}")
            for row in rows
        ]
    if promise.total_epsilon is not None:
        rows.append(_promised(promise, config, ledger, mechanism, assumptions))
    return {
        "epsilon_spent": epsilon_spent(
            ledger, delta, central=mechanism.claim.central, last=True
        ),
        "delta_spent": ledger.delta_spent(),
        "target_delta": delta,
        "most_uploads": int(ledger.uploads.max()),
        "release_epsilon": release_epsilon(config, mechanism),
        "subsampling": mechanism.subsampling and mechanism.subsampling._asdict(),
        "guarantees": [
            row._asdict() | {"status": "proved" if row.proved else "nominal"}
            for row in rows
            if mechanism.claim.relation != "none" or not math.isinf(row.epsilon)
        ],
    }


def _promised(
    promise: PromiseSettings,
    config: MechanismConfig,
    ledger: Ledger,
    mechanism: Mechanism,
    assumptions: str,
) -> Guarantee:
    """The row of what was promised before the run, for all of it."""
    assert promise.total_epsilon is not None
    claim, delta = mechanism.claim, promise.target_delta
    sound = True
    if promise.total_accounting == "basic":
        delta = promised_delta(promise, config, mechanism, ledger.filter_cost)
        sound = claims_hold(ledger, claim.any_epsilon)
    return Guarantee(
        adversary_name("observer" if claim.central else "server"),
        claim.relation,
        f"promise by {promise.total_accounting}",
        promise.total_epsilon,
        delta,
        ledger.proved and sound,
        f"{_PROMISED}; {assumptions}",
    )
