"""The curves of runs and sweeps by round, and accuracy against ε.

Colour, marker and dashes show the mechanism (`style`), the shade of the colour shows ε
(dark: small).
"""

import dataclasses
import itertools
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from fedsvp_jax import mechanisms
from fedsvp_jax.report import labels, read, style, tables
from fedsvp_jax.report.plots import Plot, Series, drawable

Runs: TypeAlias = Sequence[Sequence[read.Row]]  # rows by seed
_WIDE = 20.0  # ε further apart are drawn on a logarithmic axis
_SPENT = "rdp"  # the accounting that every row has; PLD takes ten times as long


class _Group(NamedTuple):
    """The runs that share a curve."""

    name: str
    look: style.Look
    row: tables.SummaryRow
    runs: Runs


_AGAINST = {
    "last5": ("Accuracy", "the last five evaluated rounds", "test accuracy"),
    "auc": ("AUC", "the final models on the test rows", "AUC"),
}
_SKIPPED = "Rounds that were not evaluated are skipped."


def _rounds(
    key: str, title: str, note: str, y_title: str, log: str = "", percent: str = ""
) -> Plot:
    return Plot(key, title, note, "round", y_title, [], log, percent)


# Plots over rounds, and the fields of a row that each draws, by their names there.
CURVES = (
    (
        _rounds("accuracy", "Accuracy by round", _SKIPPED, "accuracy", percent="y"),
        {"test_accuracy": "test", "validation_accuracy": "validation"},
    ),
    (
        _rounds(
            "group_accuracy",
            "Test accuracy of groups by round",
            "On the test examples of the private classes, and of the tenth of clients"
            " with the worst accuracy (by the classes of their training examples).",
            "test accuracy",
            percent="y",
        ),
        {
            "private_accuracy": "private classes",
            "worst_tenth_accuracy": "worst tenth of clients",
        },
    ),
    (
        _rounds("loss", "Loss by round", _SKIPPED, "mean loss"),
        {"test_loss": "test", "validation_loss": "validation"},
    ),
    (
        _rounds(
            "noise",
            "Injected noise by round",
            "L2 norm of the noise vector on an upload, mean over the round's uploads.",
            "L2 norm of the noise",
            log="y",
        ),
        {"noise_l2": "one upload", "aggregate_noise_l2": "the uploads' average"},
    ),
    (
        _rounds(
            "noise_std",
            "Noise standard deviation by round",
            "σ of the Gaussian noise on every weight of an upload, mean over the"
            " cohort.",
            "σ",
            log="y",
        ),
        {"noise_std_mean": "σ"},
    ),
    (
        _rounds(
            "step_noise_std",
            "Noise in the local steps by round",
            "σ of the Gaussian noise on the gradient of every local step, mean over"
            " the cohort (--clipping=per_example). The upload itself gets none.",
            "σ per step",
            log="y",
        ),
        {"step_noise_std_mean": "σ per step"},
    ),
    (
        _rounds(
            "ratio",
            "Contribution ratio by round",
            "R: the private attribute's share of a client's validation accuracy, mean"
            " over the cohort.",
            "contribution ratio R",
        ),
        {"contribution_ratio_mean": "R"},
    ),
)


def plots_of(folders: Sequence[str | Path]) -> list[Plot]:
    """The plots of one folder of a run or a sweep, or of several on the same axes.

    Raises:
      ValueError: a file is missing or damaged.
    """
    if len(folders) > 1:
        return compare_curves(read.read_all(folders))
    files = read.read_folder(*folders)
    return sweep_curves(files) if isinstance(files, read.SweepFiles) else curves(files)


def sweep_curves(sweep: read.SweepFiles) -> list[Plot]:
    """Accuracy against ε, then the curves by round."""
    rows = tables.summarize(sweep.results, sweep.cells)
    against = [against_epsilon(rows, score) for score in _AGAINST]
    return [*drawable(against), *curves(sweep)]


def curves(files: read.Files) -> list[Plot]:
    """The curves by round of a run or a sweep, in the shades of their mechanisms."""
    groups = _groups(files)
    levels = sorted({row.group[1:] for row, _ in groups if any(row.group[1:])}, key=str)
    curves = []
    for row, runs in groups:
        look = style.of_mechanism(row.mechanism)
        if row.group[1:] in levels:
            place = levels.index(row.group[1:])
            look = style.shaded(look, place, len(levels))
        curves.append(_Group(row.group.name, look, row, runs))
    return _by_round(curves)


def compare_curves(files: Mapping[str, read.Files]) -> list[Plot]:
    """The curves by round of several folders, each folder in a colour of its own."""
    curves = []
    for number, (name, result) in enumerate(files.items()):
        groups = _groups(result)
        for place, (row, runs) in enumerate(groups):
            look = style.numbered(place + number)
            look = look._replace(color=style.numbered(number).color)
            label = name if len(groups) == 1 else f"{name}: {row.group.name}"
            curves.append(_Group(label, look, row, runs))
    return _by_round(curves)


def _groups(files: read.Files) -> list[tuple[tables.SummaryRow, Runs]]:
    seeds = tables.groups(files.results).values()
    rows = tables.summarize(files.results)
    return [(row, [*runs.values()]) for row, runs in zip(rows, seeds, strict=True)]


def _by_round(groups: Sequence[_Group]) -> list[Plot]:
    """The plots of `CURVES`: of one group a curve for each field, of several the first.

    Of several seeds a curve is their mean, in a band from the smallest to the largest;
    of ε it is the largest.
    """
    plots = []
    for plot, fields in CURVES:
        series = []
        for group in groups:
            for place, (field, label) in enumerate(fields.items()):
                if place and len(groups) > 1:
                    break
                curve = _series(
                    group.name if len(groups) > 1 else label,
                    style.numbered(place) if place else group.look,
                    group.runs,
                    operator.methodcaller("get", field),
                )
                series.append(curve)
        plots.append(dataclasses.replace(plot, series=series))
    claims = [vars(group.row) for group in groups if group.row.status]
    deltas = dict.fromkeys(labels.delta_text(_SPENT, claim) for claim in claims)
    relations = dict.fromkeys(str(claim["relation"]) for claim in claims)
    statuses = {group.row.status.get(_SPENT, "") for group in groups} - {""}
    shared = "".join(statuses) if len(statuses) == 1 else ""
    spent = _rounds(
        "epsilon",
        "ε spent by round",
        "By Rényi DP; of several seeds the largest."
        f" Neighbours: {' | '.join(relations)}.",
        labels.marked(f"ε spent at {' or '.join(deltas)}", shared),
    )
    spent.series.extend(
        _series(
            labels.marked(group.name, "" if shared else group.row.status.get(_SPENT)),
            group.look,
            group.runs,
            lambda line: (line.get("epsilon_spent") or {}).get(_SPENT),
            max,
        )
        for group in groups
    )
    return drawable([*plots, spent])


def _series(
    name: str,
    look: style.Look,
    runs: Runs,
    field: Callable[[read.Row], Any],
    center: Callable[[Sequence[float]], float] = statistics.fmean,
) -> Series:
    rounds: dict[int, list[float]] = {}
    for row in itertools.chain.from_iterable(runs):
        if (value := read.number(field(row))) is not None:
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


def against_epsilon(rows: Sequence[tables.SummaryRow], score: str = "last5") -> Plot:
    """Accuracy ("last5") or AUC ("auc"), with its 95 % t interval over seeds, by ε.

    ε is what the run has spent, whatever set the noise, so a schedule stands where it
    leads. Proved and nominal ε are lines of their own; what claims nothing is a
    horizontal line. Intervals end at 0 and 100 %.
    """
    costs = [labels.least_spent(vars(row)) for row in rows]
    budgets = sorted(epsilon for _, epsilon in costs if epsilon is not None)
    ends = [0.9 * budgets[0], 1.1 * budgets[-1]] if budgets else []
    lines: dict[str, list[tuple[float, tables.SummaryRow]]] = {}
    looks = {}
    for row, (method, epsilon) in zip(rows, costs, strict=True):
        status = row.status.get(method, "")
        name = labels.marked(mechanisms.about(row.mechanism).label, status)
        looks[name] = style.of_mechanism(row.mechanism)
        places = ends if not status else [epsilon] if epsilon is not None else []
        lines.setdefault(name, []).extend((place, row) for place in places)
    series = []
    for name, points in lines.items():
        points.sort(key=lambda point: point[0])
        intervals = [row.interval(score) for _, row in points]
        series.append(
            Series(
                name,
                [epsilon for epsilon, _ in points],
                [row.scores[score][0] for _, row in points],
                [interval and interval[0] for interval in intervals],
                [interval and interval[1] for interval in intervals],
                looks[name],
            )
        )
    deltas = {
        labels.delta_text(method, vars(row))
        for row, (method, _) in zip(rows, costs, strict=True)
        if method
    }
    name, scored, title = _AGAINST[score]
    return Plot(
        f"{name.lower()}_epsilon",
        f"{name} against ε of the run",
        f"Mean of {scored} with its 95 % confidence interval over seeds, by what the"
        " whole run has spent of its adversary's ε. A horizontal line claims nothing.",
        "ε spent at " + " or ".join(sorted(deltas)),
        title,
        series,
        log="x" if budgets and 0 < _WIDE * budgets[0] < budgets[-1] else "",
        percent="y" if score == "last5" else "",
    )
