"""The curves of runs and sweeps by round, and accuracy against ε.

Colour, marker and dashes show the mechanism (`style`), the shade of the colour shows ε
(dark: small).
"""

import dataclasses
import itertools
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.core.files import Record, toml_beside

from . import labels, read, style, tables
from .plots import Plot, Series, drawable

_WIDE = 20.0  # ε further apart are drawn on a logarithmic axis
_SPENT = "rdp"  # the accounting that every row has; PLD takes ten times as long


class _Group(NamedTuple):
    """The runs that share a curve."""

    name: str
    look: style.Look
    row: tables.SummaryRow


# Plots over rounds, each with the fields of a row that it draws, by their names there.
_TEXTS = toml_beside(__file__, "assets/curves.toml")
CURVES = [(texts.pop("fields"), Plot(**texts)) for texts in _TEXTS["plots"]]
_AGAINST = _TEXTS["against"]  # by the score that is drawn


def curves(files: read.Files) -> list[Plot]:
    """The curves by round in the shades of mechanisms; of a sweep by ε before them."""
    rows = tables.summarize(files.results, files.cells)
    levels = sorted({row.group[1:] for row in rows if any(row.group[1:])}, key=str)
    shades = []
    for row in rows:
        look = style.of_mechanism(row.mechanism)
        if row.group[1:] in levels:
            look = style.shaded(look, levels.index(row.group[1:]), len(levels))
        shades.append(_Group(row.group.name, look, row))
    against = against_epsilon(rows) if isinstance(files, read.SweepFiles) else []
    return [*against, *_by_round(shades)]


def compare_curves(files: Mapping[str, read.Files]) -> list[Plot]:
    """The curves by round of several folders, each folder in a colour of its own."""
    curves = []
    for number, (name, result) in enumerate(files.items()):
        rows = tables.summarize(result.results, result.cells)
        for place, row in enumerate(rows):
            look = style.numbered(place + number)
            look = look._replace(color=style.numbered(number).color)
            label = name if len(rows) == 1 else f"{name}: {row.group.name}"
            curves.append(_Group(label, look, row))
    return _by_round(curves)


def _by_round(groups: Sequence[_Group]) -> list[Plot]:
    """The plots of `CURVES`, with a curve for each group and field, and of ε spent.

    Of several seeds a curve is their mean, in a band from the smallest to the largest;
    of ε it is the largest.
    """
    plots = []
    several = len(groups) > 1
    for fields, plot in CURVES:
        series = []
        for group, (place, (field, label)) in itertools.product(
            groups, enumerate(fields.items())
        ):
            look, name = group.look, group.name if several else label
            if place:
                look = look._replace(dash=style.SECOND)
                name = f"{group.name}, {label}" if several else label
            series.append(_series(name, look, group.row.runs, field))
        plots.append(dataclasses.replace(plot, series=series))
    spent = _by_claim([group.row for group in groups], partial(_spent, groups))
    return drawable([*plots, *spent])


def _by_claim(
    rows: Sequence[tables.SummaryRow],
    draw: Callable[[list[tables.SummaryRow], str], Plot],
) -> list[Plot]:
    """A plot of each kind of claim: of its rows, whose ε mean the same, and its words.

    ε of other adversaries or neighbours cannot be compared. Rows that claim nothing are
    in each plot.
    """
    meanings = dict.fromkeys(meaning(vars(row)) for row in rows if row.status) or [""]
    plots = []
    for number, words in enumerate(meanings, start=1):
        alike = [row for row in rows if not row.status or meaning(vars(row)) == words]
        plot = draw(alike, words)
        suffix = f"_{number}" if number > 1 else ""
        plots.append(dataclasses.replace(plot, id=plot.id + suffix))
    return plots


def _spent(groups: Sequence[_Group], rows: list[tables.SummaryRow], words: str) -> Plot:
    """ε spent by round of the groups of these rows, whose claims mean `words`."""
    claims = [vars(row) for row in rows if row.status]
    deltas = dict.fromkeys(labels.delta_text(_SPENT, claim) for claim in claims)
    statuses = dict.fromkeys(claim["status"].get(_SPENT, "") for claim in claims)
    series = [
        _series(
            labels.marked(group.name, group.row.status.get(_SPENT)),
            group.look,
            group.row.runs,
            "epsilon_spent",
            max,
        )
        for group in groups
        if group.row in rows
    ]
    note = _TEXTS["spent"].format(words)
    y_title = labels.marked(f"ε spent at {' or '.join(deltas)}", " or ".join(statuses))
    return Plot("epsilon", "ε spent by round, at most", note, y_title, series)


def _series(
    name: str,
    look: style.Look,
    runs: list[list[Record]],
    field: str,
    center: Callable[[Sequence[float]], float] = statistics.fmean,
) -> Series:
    rounds: dict[int, list[float]] = {}
    for row in itertools.chain.from_iterable(runs):
        value = row.get(field)
        if isinstance(value, dict):
            value = value.get(_SPENT)
        if value is not None:
            rounds.setdefault(row["round"], []).append(value)
    over_seeds = [rounds[number] for number in sorted(rounds)]
    several = over_seeds if len(runs) > 1 else []
    return Series(
        name,
        sorted(rounds),
        [center(values) for values in over_seeds],
        [min(values) for values in several],
        [max(values) for values in several],
        look,
    )


def against_epsilon(rows: Sequence[tables.SummaryRow]) -> list[Plot]:
    """Accuracy, and AUC where it is known, with 95 % t intervals over seeds, by ε.

    Claims against other adversaries or of other neighbours have a plot of their own,
    since their ε cannot be compared. What claims nothing is in each of them.
    """
    plots = (_by_claim(rows, partial(_against_epsilon, score)) for score in _AGAINST)
    return drawable([*itertools.chain(*plots)])


def _against_epsilon(score: str, rows: list[tables.SummaryRow], words: str) -> Plot:
    """The plot of claims that mean `words`.

    ε is what the run has spent, whatever set the noise, so a schedule stands where it
    leads. Proved and nominal ε are lines of their own; what claims nothing is a
    horizontal line. Intervals end at 0 and 100 %.
    """
    costs = [labels.least_spent(vars(row)) for row in rows]
    budgets = sorted(epsilon for _, epsilon in costs if epsilon is not None)
    ends = [0.9 * budgets[0], 1.1 * budgets[-1]] if budgets else []
    lines: dict[str, list[tuple[float, tables.SummaryRow]]] = {}
    for row, (method, epsilon) in zip(rows, costs, strict=True):
        status = row.status.get(method, "")
        name = labels.marked(mechanisms.about(row.mechanism).label, status)
        for place in [epsilon] if status else ends:
            if place is not None:
                lines.setdefault(name, []).append((place, row))
    series = []
    for name, points in lines.items():
        points.sort(key=operator.itemgetter(0))
        epsilons, of_points = map(list, zip(*points, strict=True))
        look = style.of_mechanism(of_points[0].mechanism)
        if not of_points[0].status:
            look = look._replace(marker="")
        means = [row.scores[score][0] for row in of_points]
        intervals = [row.interval(score) or (None, None) for row in of_points]
        lower, upper = map(list, zip(*intervals, strict=True))
        series.append(Series(name, epsilons, means, lower, upper, look))
    deltas = {
        labels.delta_text(method, vars(row))
        for row, (method, _) in zip(rows, costs, strict=True)
        if method
    }
    return Plot(
        **_AGAINST[score],
        series=series,
        x_title=labels.marked("ε spent at " + " or ".join(sorted(deltas)), words),
        log="x" if budgets and 0 < _WIDE * budgets[0] < budgets[-1] else "",
    )
