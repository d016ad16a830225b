"""Cumulative ε for each adversary, recomputed from clients.jsonl."""

import math
from collections.abc import Sequence
from typing import Any

from fedsvp_jax.accounting import FilterCost, Ledger, guarantees
from fedsvp_jax.mechanisms.subsampling import Subsampling
from fedsvp_jax.report import labels, read, spent, style
from fedsvp_jax.report.plots import Plot, Series

METHOD = "rdp"  # fast enough for every point; PLD would take seconds for each
NUM_POINTS = 20
_NEEDED = ("weight", "noise_multiplier")


def adversaries_plot(run: read.RunFiles) -> Plot:
    """Cumulative ε, one curve for each adversary with an RDP guarantee in summary.json.

    A ledger is filled again with the uploads of clients.jsonl and the filter's passes
    of metrics.jsonl, so that the curves end at the table's numbers. There is no series
    where a field that this needs is missing.
    """
    delta = read.number(run.summary.get("target_delta"))
    status = {
        str(row.get("adversary")): str(row.get("status") or "")
        for row in run.summary.get("guarantees") or []
        if isinstance(row, dict) and row.get("method") == METHOD
    }
    complete = run.clients and all(set(_NEEDED) <= set(row) for row in run.clients)
    curves: dict[str, tuple[list[float | None], list[float | None]]] = {}
    if status and delta is not None and complete:
        for round_num, by_adversary in _spent(run, delta):
            for name in status:
                x, y = curves.setdefault(name, ([], []))
                x.append(round_num)
                y.append(read.number(by_adversary.get(name)))
    return Plot(
        "adversaries",
        "Cumulative ε by adversary",
        f"{labels.method_label(METHOD)} at δ = {labels.significant(delta)}. The table"
        " below says what each adversary is assumed to see.",
        "round",
        spent.axis_title(status, spent.delta_text(METHOD, run.summary)),
        [
            Series(
                keys={"adversary": name},
                name=name,
                x=x,
                y=y,
                look=style.numbered(index),
            )
            for index, (name, (x, y)) in enumerate(curves.items())
        ],
    )


def _spent(run: read.RunFiles, delta: float) -> list[tuple[int, dict[str, float]]]:
    """(round, ε by adversary) at evenly spaced rounds, the last round included."""
    by_round: dict[int, list[read.Row]] = {}
    for row in run.clients:
        by_round.setdefault(row["round"], []).append(row)
    last = run.metrics[-1]["round"]
    passes = {
        row["round"]: _cost(row["influence_filter"]["cost"])
        for row in run.metrics
        if row.get("influence_filter")
    }
    shown = {-(-last * i // NUM_POINTS) for i in range(1, NUM_POINTS + 1)}
    ledger = Ledger(
        1 + max(row["client"] for row in run.clients),
        subsampling=_subsampling(run.summary.get("subsampling")),
    )
    release = read.number(run.summary.get("release_epsilon")) or 0.0
    curve = []
    for round_num in range(1, last + 1):
        rows = by_round.get(round_num, [])
        if round_num in passes:
            ledger.record_pass(passes[round_num])
        weights = [row["weight"] for row in rows]
        ledger.record(
            [row["client"] for row in rows],
            round_num=round_num,
            noise_multiplier=_numbers(rows, "noise_multiplier"),
            noise_std=[_counted_std(row) for row in rows],
            epsilon=_numbers(rows, "epsilon"),
            delta=_numbers(rows, "delta"),
            weights=weights,
            release_epsilon=release,
        )
        if round_num in shown:
            table = guarantees(
                ledger, delta, relation="", assumptions="", methods=(METHOD,)
            )
            by_adversary = {
                row.adversary: row.epsilon for row in table if row.method == METHOD
            }
            curve.append((round_num, by_adversary))
    return curve


def _subsampling(told: dict[str, Any] | None) -> Subsampling | None:
    if told is None:
        return None
    kinds = tuple((float(rate), int(steps)) for rate, steps in told["kinds"])
    return Subsampling(kinds, int(told["most_steps"]))


def _cost(told: dict[str, Any]) -> FilterCost:
    """What a pass cost; null in the file stands for infinity."""
    fields: dict[str, Any] = {
        name: math.inf if told[name] is None else told[name] for name in told
    }
    return FilterCost(**fields)


def _counted_std(row: read.Row) -> float:
    """z·Δ of an upload, 0 where no noise lies on it."""
    return row["noise_multiplier"] * row["sensitivity"] if row["noise_std"] else 0.0


def _numbers(rows: Sequence[read.Row], name: str) -> list[Any]:
    """One field of every row; null in the file stands for infinity."""
    return [float("inf") if row[name] is None else row[name] for row in rows]
