"""The curves of runs and sweeps by round, and accuracy against ε.

Colour, marker and dashes show the mechanism (`style`), the shade of the colour shows ε
(dark: small).
"""

import dataclasses
import functools
import itertools
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fedsvp_jax import mechanisms
from fedsvp_jax.report import labels, read, style, tables
from fedsvp_jax.report.plots import Plot, Series, drawable

Runs: TypeAlias = Sequence[Sequence[read.Row]]  # rows by seed
Groups: TypeAlias = dict[str, tuple[style.Look, Runs, tables.SummaryRow]]
_WIDE = 20.0  # ε further apart are drawn on a logarithmic axis
_SPENT = "rdp"  # the accounting that every row has; PLD takes ten times as long


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
            " the cohort (--sensitivity=per_example). The upload itself gets none.",
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
    if isinstance(files, read.RunFiles):
        return run_curves(files)
    return sweep_curves(files)


def run_curves(run: read.RunFiles) -> list[Plot]:
    """A run's curves by round, and the ε against each adversary of a claim."""
    look = style.of_mechanism(str(run.config.get("mechanism")))
    claims = [
        row | {"target_delta": row["delta"]}
        for row in read.guarantees(run.summary)
        if row.get("method") == _SPENT and row.get("copies", 1) == 1
    ]
    spent: dict[tuple[float | None, ...], Series] = {}
    for row in claims:
        curve = _series(
            labels.marked(row["adversary"], row["status"]),
            style.numbered(len(spent)),
            [run.metrics],
            functools.partial(_told, row["adversary"]),
        )
        before = spent.setdefault(tuple(curve.y), curve)
        if before is not curve:  # one curve for those who learn the same
            name = f"{before.name}, {curve.name}"
            spent[tuple(curve.y)] = dataclasses.replace(before, name=name)
    plots = curves({"": (look, [run.metrics])})
    return [*plots, *_spent_plots([*spent.values()], claims)]


def _told(adversary: str, line: read.Row) -> Any:
    return (line.get("rdp_by_adversary") or {}).get(adversary)


def sweep_curves(sweep: read.SweepFiles) -> list[Plot]:
    """Accuracy against ε, then the curves by round and ε spent: mean over seeds."""
    rows = tables.summarize(sweep.results, sweep.cells)
    return [
        *drawable([accuracy_against_epsilon(rows)]),
        *_by_round(_groups(sweep.results)),
    ]


def compare_curves(files: Mapping[str, read.RunFiles | read.SweepFiles]) -> list[Plot]:
    """The curves by round of several folders, each folder in a colour of its own."""
    groups: Groups = {}
    for number, (name, result) in enumerate(files.items()):
        color = style.numbered(number).color
        drawn = _groups(result.results)
        for place, (label, (_, runs, row)) in enumerate(drawn.items()):
            look = style.numbered(place + number)._replace(color=color)
            groups[name if len(drawn) == 1 else f"{name}: {label}"] = look, runs, row
    return _by_round(groups)


def _groups(results: Sequence[read.Row]) -> Groups:
    """The groups of a table, in the shades of their mechanisms."""
    groups = tables.groups(results)
    levels = sorted({group[1:] for group in groups if any(group[1:])}, key=str)
    drawn: Groups = {}
    for row, (group, seeds) in zip(
        tables.summarize(results), groups.items(), strict=True
    ):
        look = style.of_mechanism(group.mechanism)
        if group[1:] in levels:
            look = style.shaded(look, levels.index(group[1:]), len(levels))
        drawn[group.name] = look, [*seeds.values()], row
    return drawn


def _by_round(groups: Groups) -> list[Plot]:
    claims = [vars(row) for _, _, row in groups.values() if row.status]
    spent = [
        _series(
            labels.marked(name, row.status.get(_SPENT)),
            look,
            runs,
            lambda line: (line.get("epsilon_spent") or {}).get(_SPENT),
            max,
        )
        for name, (look, runs, row) in groups.items()
    ]
    plots = curves({name: (look, runs) for name, (look, runs, _) in groups.items()})
    return [*plots, *_spent_plots(spent, claims)]


def _spent_plots(
    series: list[Series], claims: Sequence[Mapping[str, Any]]
) -> list[Plot]:
    deltas = dict.fromkeys(labels.delta_text(_SPENT, claim) for claim in claims)
    relations = dict.fromkeys(str(claim["relation"]) for claim in claims)
    plot = Plot(
        "epsilon",
        "ε spent by round",
        "By Rényi DP; of several seeds the largest."
        f" Neighbours: {' | '.join(relations)}.",
        "round",
        f"ε spent at {' or '.join(deltas)}",
        series,
    )
    return drawable([plot])


def curves(groups: Mapping[str, tuple[style.Look, Runs]]) -> list[Plot]:
    """The plots of `CURVES`: of one group a curve for each field, of several the first.

    Args:
      groups: look and rows by seed, by the group's name. Of several seeds the curve is
        their mean, in a band from the smallest to the largest.
    """
    plots = []
    for plot, fields in CURVES:
        series = []
        for name, (look, runs) in groups.items():
            for place, (field, label) in enumerate(fields.items()):
                if place and len(groups) > 1:
                    break
                curve = _series(
                    name if len(groups) > 1 else label,
                    style.numbered(place)._replace(color=look.color) if place else look,
                    runs,
                    operator.methodcaller("get", field),
                )
                series.append(curve)
        plots.append(dataclasses.replace(plot, series=series))
    return drawable(plots)


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


def accuracy_against_epsilon(rows: Sequence[tables.SummaryRow]) -> Plot:
    """Mean of the last five rounds, with its 95 % t interval over seeds, by ε.

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
        intervals = [row.interval for _, row in points]
        series.append(
            Series(
                name,
                [epsilon for epsilon, _ in points],
                [row.accuracy for _, row in points],
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
    return Plot(
        "accuracy_epsilon",
        "Accuracy against ε of the run",
        "Mean of the last five evaluated rounds with its 95 % confidence interval over"
        " seeds, by what the whole run has spent of its adversary's ε. A horizontal"
        " line claims nothing.",
        "ε spent at " + " or ".join(sorted(deltas)),
        "test accuracy",
        series,
        log="x" if budgets and 0 < _WIDE * budgets[0] < budgets[-1] else "",
        percent="y",
    )
