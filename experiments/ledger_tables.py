"""How many uploads one promise leaves: a table of docs/results/guarantees.md."""

import dataclasses
from typing import Any

from fedsvp_jax import influence, mechanisms
from fedsvp_jax.accounting import Account, FilterCost, Participation
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.federation import budget, plan
from fedsvp_jax.report.text_table import markdown

Json = dict[str, Any]
_ROUNDS, _PROMISE, _DELTA = 1000, 4.0, 1e-5
_FILTERS = (  # participants, noise of a contribution, ε of a vote as published
    (100, 0.1, 1.0),
    (100, 20.0, 0.05),
    (100, 40.0, 0.02),
    (20, 20.0, 0.2),
)


def _config(**changes: Any) -> ExperimentConfig:
    settings: Json = {
        "epsilon": 0.2,
        "delta": _DELTA,
        "sensitivity": "update_clip",
        "num_rounds": _ROUNDS,
        "total_epsilon": _PROMISE,
    }
    return resolve(ExperimentConfig(**(settings | changes)))


def promise() -> Json:
    """How many uploads one promise leaves, with and without the influence filter."""
    rows = []
    for participants, noise, vote in ((100, None, None), *_FILTERS):
        config = _config(mechanism="nbafl", num_clients=participants)
        row: Json = {
            "participants": participants,
            "contribution_noise": noise,
            "vote_epsilon": vote,
        }
        cost = FilterCost()
        if noise is not None:
            config = _config(
                mechanism="nbafl",
                num_clients=participants,
                influence_filter="join",
                contribution_noise=noise,
                vote_epsilon=vote,
            )
            cost = budget.planned_cost(config)
            told = influence.guarantees(
                config,
                num_participants=participants,
                delta=config.target_delta,
                passes=cost.passes,
            )
            row |= {
                "contribution": told.contribution,
                "votes": told.test_set_pld,
                "together": told.participant_pld,
            }
        for method in ("basic", "rdp", "pld"):
            row[method] = _fitting(config, method, cost)
        rows.append(row)
    return {
        "total_epsilon": _PROMISE,
        "epsilon": 0.2,
        "delta": _DELTA,
        "target_delta": config.target_delta,
        "rows": rows,
    }


def _fitting(config: ExperimentConfig, method: str, cost: FilterCost) -> int:
    """Uploads within the promise; 0 where the filter alone is too much."""
    told = plan.mechanism_config(config)
    mechanism = mechanisms.make_mechanism(config.mechanism, told)
    who = Participation.of(config, filter_cost=cost)
    counted = dataclasses.replace(config, total_accounting=method)
    try:
        return Account.of(mechanism, who, counted).plan.most_uploads
    except ValueError:  # the filter's events alone exceed the promise
        return 0


def promise_table(results: Json) -> str:
    """One promise, charged for the filter first."""
    rows = []
    for row in results["rows"]:
        noise, vote, parts = "no filter", "–", "0"
        if row["contribution_noise"] is not None:
            noise, vote = f"{row['contribution_noise']:g}", f"{row['vote_epsilon']:g}"
            of_both = (row[name] for name in ("contribution", "votes", "together"))
            parts = ", ".join(f"{part:.3g}" for part in of_both)
        settings = {
            "clients": str(row["participants"]),
            "`--contribution_noise`": noise,
            "`--vote_epsilon`": vote,
            "ε of contribution, of votes, of both (PLD)": parts,
        }
        uploads = {
            f"uploads, {method}": str(row[method]) if row[method] else "refused"
            for method in ("basic", "rdp", "pld")
        }
        rows.append(settings | uploads)
    return (
        f"{markdown(rows)}\nε = {results['total_epsilon']:g} for all that one client "
        f"sends; `nbafl`, ε = {results['epsilon']:g} and δ = {results['delta']:g} per "
        f"upload; δ = {results['target_delta']:g} for the run (RDP, PLD) and for a "
        "contribution (basic)."
    )
