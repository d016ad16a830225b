"""Which attribute matters, to whom: the Shapley values of a run on its page."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from fedsvp_jax.report import labels, page, read, style
from fedsvp_jax.report.plots import HeatMap, Plot, Series, drawable

MOST_CURVES = len(style.OKABE_ITO)
MOST_CLIENTS = 200  # rows of the heat map


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
    values, squares = [], 0.0
    for row in rows:
        value = read.number(row["shapley_values"][attribute])
        if value is None:
            continue
        margins = row.get("shapley_margins")
        margin = read.number(margins[attribute]) if margins else 0.0
        values.append(value)
        squares += math.nan if margin is None else margin**2
    if not values:
        return None
    margin = math.sqrt(squares) / len(values) if not math.isnan(squares) else None
    return Mean(sum(values) / len(values), margin)


def valued(run: read.RunFiles) -> list[read.Row]:
    """The uploads that have Shapley values."""
    return [row for row in run.clients if row.get("shapley_values")]


def attribute_names(run: read.RunFiles, count: int) -> list[str]:
    """The attributes' names from summary.json, or their numbers."""
    names = run.summary.get("attributes")
    if isinstance(names, list) and len(names) == count:
        return list(map(str, names))
    return [f"attribute {index}" for index in range(count)]


def ranked(run: read.RunFiles) -> list[tuple[int, str, Mean]]:
    """(index, name, mean over all uploads) of every attribute, the largest first."""
    rows = valued(run)
    count = len(rows[0]["shapley_values"]) if rows else 0
    names = attribute_names(run, count)
    means = [(a, names[a], mean_value(rows, a)) for a in range(count)]
    attributes = [(a, name, mean) for a, name, mean in means if mean is not None]
    return sorted(attributes, key=lambda attribute: (-attribute[2].value, attribute[0]))


def attribute_plots(run: read.RunFiles) -> list[Plot | HeatMap]:
    """Values by round with their intervals, and clients by attributes."""
    order = ranked(run)
    if not order:
        return []
    by_round: dict[int, list[read.Row]] = {}
    by_client: dict[int, list[read.Row]] = {}
    for row in valued(run):
        by_round.setdefault(row["round"], []).append(row)
        by_client.setdefault(row["client"], []).append(row)
    rounds = sorted(by_round)
    series = []
    for place, (attribute, name, _) in enumerate(order[:MOST_CURVES]):
        means = [mean_value(by_round[number], attribute) for number in rounds]
        banded = any(mean and mean.margin for mean in means)
        series.append(
            Series(
                keys={"attribute": name},
                name=name,
                x=list(rounds),
                y=[mean.value if mean else None for mean in means],
                lower=[_edge(mean, -1) for mean in means] if banded else None,
                upper=[_edge(mean, 1) for mean in means] if banded else None,
                look=style.numbered(place),
            )
        )
    left_out = len(order) - len(series)
    omission = f" The {left_out} smallest are left out here." if left_out else ""
    clients = sorted(by_client)[:MOST_CLIENTS]
    first = len(clients) < len(by_client)
    cells = {
        client: [mean_value(by_client[client], attribute) for attribute, *_ in order]
        for client in clients
    }
    return [
        *drawable(
            [
                Plot(
                    "attributes",
                    "Shapley value of each attribute by round",
                    "Mean over the cohort, the largest attributes of the run first."
                    " Band: 95 % interval of the mean, where values are estimated."
                    + omission,
                    "round",
                    "Shapley value",
                    series,
                )
            ]
        ),
        HeatMap(
            "attribute_clients",
            "Shapley value of each attribute by client",
            "Mean over the client's uploads; attributes from the largest to the"
            " smallest."
            + (f" The first {MOST_CLIENTS} clients are shown." if first else ""),
            "attribute",
            "client",
            "Shapley value",
            columns=[name for _, name, _ in order],
            rows=list(map(str, clients)),
            cells=[[mean and mean.value for mean in row] for row in cells.values()],
        ),
    ]


def ranking_table(run: read.RunFiles) -> page.Markup:
    """The attributes from the largest mean value to the smallest, as markup."""
    private = run.summary.get("private_attribute")
    rows = [
        (
            place,
            name + (" (private)" if attribute == private else ""),
            labels.significant(mean.value, 3),
            "exact" if mean.margin == 0 else _with_sign(mean.margin),
        )
        for place, (attribute, name, mean) in enumerate(ranked(run), start=1)
    ]
    return page.table(
        ("rank", "attribute", "mean value", "95 % interval"),
        rows,
        caption="Mean Shapley value over all uploads. The interval is that of the"
        " estimates' error; a dash means that no error is known"
        " (--shapley_trainings=0).",
    )


def _edge(mean: Mean | None, sign: int) -> float | None:
    return mean.value + sign * mean.margin if mean and mean.margin is not None else None


def _with_sign(margin: float | None) -> str:
    return labels.significant(margin) if margin is None else f"± {margin:.2g}"
