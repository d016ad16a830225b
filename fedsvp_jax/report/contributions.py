"""Which attribute matters."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from fedsvp_jax.core.files import Record

from . import read, style
from .plots import Plot, Series, drawable

MOST_CURVES = len(style.COLORS)


class Mean(NamedTuple):
    """The mean of some values, and half of its 95 % interval."""

    value: float
    margin: float | None  # None where one of the values has none


def mean_value(rows: Sequence[Record], attribute: int) -> Mean | None:
    """The mean Shapley value of an attribute over uploads; None without an upload.

    The estimates of different uploads err independently, so the margin of their mean
    over n uploads is sqrt(sum of margin^2)/n. It ignores how much uploads
    differ. Exact values have margin 0.
    """
    rows = [row for row in rows if row["shapley_values"][attribute] is not None]
    if not rows:
        return None
    margins = [
        row["shapley_margins"][attribute] if row.get("shapley_margins") else 0.0
        for row in rows
    ]
    mean = statistics.fmean(row["shapley_values"][attribute] for row in rows)
    return Mean(mean, None if None in margins else math.hypot(*margins) / len(rows))


def ranked(run: read.RunFiles) -> list[tuple[int, str, Mean]]:
    """(index, name, mean over all uploads) of every attribute, the largest first."""
    rows = _valued(run)
    count = len(rows[0]["shapley_values"]) if rows else 0
    names = run.summary.get("attributes") or [f"attribute {a}" for a in range(count)]
    means = [(a, str(names[a]), mean_value(rows, a)) for a in range(count)]
    return sorted(
        [(a, name, mean) for a, name, mean in means if mean is not None],
        key=lambda attribute: (-attribute[2].value, attribute[0]),
    )


def _valued(run: read.RunFiles) -> list[Record]:
    return [row for row in run.clients if row.get("shapley_values")]


def attribute_plots(run: read.RunFiles) -> list[Plot]:
    """The largest attributes' values by round, with their intervals."""
    by_round: dict[int, list[Record]] = {}
    for row in _valued(run):
        by_round.setdefault(row["round"], []).append(row)
    series = []
    for place, (attribute, name, _) in enumerate(ranked(run)[:MOST_CURVES]):
        means = {
            number: mean
            for number, rows in by_round.items()
            if (mean := mean_value(rows, attribute)) is not None
        }
        values = [mean.value for mean in means.values()]
        margins = [mean.margin or 0.0 for mean in means.values()]
        bands = [*zip(values, margins, strict=True)] if any(margins) else []
        lower = [value - margin for value, margin in bands]
        upper = [value + margin for value, margin in bands]
        look = style.numbered(place)
        series.append(Series(name, [*means], values, lower, upper, look))
    plot = Plot(
        "attributes",
        "Shapley value of each attribute by round",
        "Mean over the cohort, the largest attributes of the run first, at most"
        f" {MOST_CURVES}. Band: 95 % interval of the mean, where values are estimated.",
        "Shapley value",
        series,
    )
    return drawable([plot])
