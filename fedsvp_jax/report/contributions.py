"""Which attribute matters, who contributes: Shapley values of a run's uploads."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from fedsvp_jax.report import labels, read, style
from fedsvp_jax.report.plots import Plot, Series, drawable

MOST_CURVES = len(style.OKABE_ITO)


class Mean(NamedTuple):
    """The mean of some values, and half of its 95 % interval."""

    value: float
    margin: float | None  # None where one of the values has none


def mean_value(rows: Sequence[read.Row], attribute: int) -> Mean | None:
    """The mean Shapley value of an attribute over uploads; None without an upload.

    The estimates of different uploads err independently, so the margin of their mean
    over n uploads is sqrt(sum of margin^2)/n. It ignores how much uploads
    differ. Exact values have margin 0.
    """
    valued = [
        row for row in rows if read.number(row["shapley_values"][attribute]) is not None
    ]
    if not valued:
        return None
    values = [row["shapley_values"][attribute] for row in valued]
    margins = [
        row["shapley_margins"][attribute] if row.get("shapley_margins") else 0.0
        for row in valued
    ]
    margin = total_margin(margins)
    return Mean(statistics.fmean(values), margin and margin / len(values))


def total_margin(margins: Sequence[Any]) -> float | None:
    """sqrt(sum of margin^2), of independent errors; None where one is not known."""
    numbers = [read.number(margin) for margin in margins]
    return None if None in numbers else math.hypot(*filter(None, numbers))


def ranked(run: read.RunFiles) -> list[tuple[int, str, Mean]]:
    """(index, name, mean over all uploads) of every attribute, the largest first."""
    rows = _valued(run)
    count = len(rows[0]["shapley_values"]) if rows else 0
    names = run.summary.get("attributes")
    if not isinstance(names, list) or len(names) != count:
        names = [f"attribute {index}" for index in range(count)]
    means = [(a, str(names[a]), mean_value(rows, a)) for a in range(count)]
    attributes = [(a, name, mean) for a, name, mean in means if mean is not None]
    return sorted(attributes, key=lambda attribute: (-attribute[2].value, attribute[0]))


def _valued(run: read.RunFiles) -> list[read.Row]:
    return [row for row in run.clients if row.get("shapley_values")]


def attribute_plots(run: read.RunFiles) -> list[Plot]:
    """The largest attributes' values by round, with their intervals."""
    by_round: dict[int, list[read.Row]] = {}
    for row in _valued(run):
        by_round.setdefault(row["round"], []).append(row)
    series = []
    for place, (attribute, name, _) in enumerate(ranked(run)[:MOST_CURVES]):
        means = {
            number: mean
            for number, rows in sorted(by_round.items())
            if (mean := mean_value(rows, attribute)) is not None
        }
        banded = [mean for mean in means.values() if mean.margin]
        ends = [
            [mean.value + sign * (mean.margin or 0.0) for mean in means.values()]
            for sign in (-1, 1)
            if banded
        ]
        values = [mean.value for mean in means.values()]
        look = style.numbered(place)
        lower, upper = ends or ((), ())
        series.append(Series(name, [*means], values, lower, upper, look))
    plot = Plot(
        "attributes",
        "Shapley value of each attribute by round",
        "Mean over the cohort, the largest attributes of the run first, at most"
        f" {MOST_CURVES}. Band: 95 % interval of the mean, where values are estimated.",
        "round",
        "Shapley value",
        series,
    )
    return drawable([plot])


def attribute_table(run: read.RunFiles) -> list[dict[str, Any]]:
    """The attributes from the largest mean value to the smallest."""
    private = run.summary.get("private_attribute")
    return [
        {
            "rank": place,
            "attribute": name + (" (private)" if attribute == private else ""),
            "mean value": labels.significant(mean.value, 3),
            "95 % interval": _margin_text(mean.margin),
        }
        for place, (attribute, name, mean) in enumerate(ranked(run), start=1)
    ]


def client_table(run: read.RunFiles) -> list[dict[str, Any]]:
    """Every client that uploaded: its noise, its ε, and its value where there is one.

    Values of different rounds add up: a client's sum is what its uploads have added to
    the model over the run.
    """
    by_client: dict[int, list[read.Row]] = {}
    for row in run.clients:
        by_client.setdefault(row["client"], []).append(row)
    noise, sigma = "noise_std", "mean σ"
    if any(row.get("step_noise_std") for row in run.clients):
        noise, sigma = "step_noise_std", "mean σ per local step"
    spent = run.summary.get("by_client") or {}
    rows = []
    for client, uploads in sorted(by_client.items()):
        values = [read.number(row.get("client_value")) for row in uploads]
        margins = [row.get("client_value_margin", 0.0) for row in uploads]
        valued = values != [None] * len(values)
        name = read.client_name(run.summary, client)
        if client in (run.summary.get("corrupted_clients") or ()):
            name += " (corrupted)"
        rows.append(
            {
                "client": name,
                "uploads": len(uploads),
                "mean R": _mean(uploads, "contribution_ratio"),
                sigma: _mean(uploads, noise),
                "ε": labels.significant(_item(spent.get("epsilon"), client)),
                "δ": labels.significant(_item(spent.get("delta"), client)),
                "sum of values": labels.significant(
                    math.fsum(filter(None, values)) if valued else None, 3
                ),
                "95 % interval": _margin_text(total_margin(margins)) if valued else "–",
            }
        )
    return rows


def _mean(rows: Sequence[read.Row], name: str) -> str:
    values = [v for row in rows if (v := read.number(row.get(name))) is not None]
    return labels.significant(statistics.fmean(values) if values else None)


def _item(values: list[Any] | None, index: int) -> float | None:
    return read.number(values[index]) if values and index < len(values) else None


def _margin_text(margin: float | None) -> str:
    if margin == 0:
        return "exact"
    return "–" if margin is None else f"± {margin:.2g}"
