"""The curves of a sweep, from results.jsonl: mean and spread over seeds.

Colour, marker and dashes show the mechanism (`style`), the shade of the colour shows ε
(dark: small). FedAvg is black and stands in every panel as the reference.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.core import student
from fedsvp_jax.report import labels, read, spent, style, tables
from fedsvp_jax.report.plots import Plot, Series, drawable, noisy

Groups = dict[tables.Group, dict[int, list[read.Row]]]
_WIDE = 20.0  # ε further apart are drawn on a logarithmic axis
Field = Callable[[read.Row], float | None]


def sweep_plots(results: Sequence[read.Row]) -> list[Plot]:
    """Accuracy against ε, then accuracy, noise, R and ε spent by round."""
    groups = tables.groups(results)
    methods = read.spent_methods(results)
    plots = [
        accuracy_against_epsilon(results),
        Plot(
            "accuracy",
            "Test accuracy by round",
            "Mean over seeds. Band: smallest to largest over seeds.",
            "round",
            "test accuracy",
            _curves(groups, _read_field("test_accuracy"), skip_gaps=True),
            percent_y=True,
        ),
        Plot(
            "validation_accuracy",
            "Validation accuracy by round",
            "On the server's validation set, which chooses the best round of each seed."
            " Mean over seeds. Band: smallest to largest over seeds.",
            "round",
            "validation accuracy",
            _curves(groups, _read_field("validation_accuracy"), skip_gaps=True),
            percent_y=True,
        ),
        Plot(
            "noise",
            "Injected noise by round",
            "L2 norm of the noise vector on an upload, mean over uploads and seeds.",
            "round",
            "L2 norm of the noise",
            noisy(_curves(groups, _read_field("noise_l2"))),
            log_y=True,
        ),
        Plot(
            "step_noise_std",
            "Noise in the local steps by round",
            "With --sensitivity=per_example, σ of the Gaussian noise on the gradient of"
            " every local step, mean over clients and seeds. The upload itself gets"
            " none.",
            "round",
            "σ per step",
            noisy(_curves(groups, _read_field("step_noise_std_mean"))),
            log_y=True,
        ),
        Plot(
            "ratio",
            "Contribution ratio by round",
            "R: the private attribute's share of a client's validation accuracy, mean"
            " over the cohort and the seeds.",
            "round",
            "contribution ratio R",
            _curves(groups, _read_field("contribution_ratio_mean")),
        ),
        *(
            Plot(
                f"epsilon_{index}",
                f"Cumulative ε, {labels.method_label(method)}",
                "Largest over seeds."
                + (" It holds at Σδ as claimed." if method == "basic" else "")
                + spent.neighbours_note(_meanings(results, method).values()),
                "round",
                _spent_title(results, method),
                curves,
                log_y=True,
            )
            for index, method in enumerate(methods)
            if (curves := _by_round(groups, method))
        ),
    ]
    return drawable(plots)


def _by_round(groups: Groups, method: str) -> list[Series]:
    """Curves of ε spent; none where only the last round has it, as the table shows."""
    curves = _curves(groups, _spent_by(method), center=max, skip_gaps=True)
    many = any(len(run) > 1 for runs in groups.values() for run in runs.values())
    return curves if any(len(curve.x) > 1 for curve in curves) or not many else []


def _meanings(results: Sequence[read.Row], method: str) -> dict[str, str]:
    """The meaning of each mechanism's ε, by name; nominal where one row is nominal."""
    rows = [row for row in tables.summarize(results) if row.status]
    meanings: dict[str, str] = {}
    for row in rows:
        name = mechanisms.about(row.mechanism).label
        if not meanings.get(name, "").startswith("nominal"):
            claim = dataclasses.asdict(row)
            meanings[name] = meaning(claim, row.status.get(method))
    return meanings


def _spent_title(results: Sequence[read.Row], method: str) -> str:
    """The axis of ε spent by a method: its δ, and what the mechanisms' ε means."""
    rows = [row for row in tables.summarize(results) if row.status]
    meanings = _meanings(results, method)
    if method == "basic":
        return spent.axis_title(meanings, "Σδ")
    texts = {spent.delta_text(method, dataclasses.asdict(row)) for row in rows}
    return spent.axis_title(meanings, texts.pop() if len(texts) == 1 else "")


def accuracy_against_epsilon(results: Sequence[read.Row]) -> Plot:
    """Mean of the last five rounds with its 95% t interval over seeds, by ε of the run.

        mean ± t_{0.975, S−1} · std / sqrt(S)

    One seed gives no interval. ε is what the run has spent, whatever set the noise, so
    a schedule stands where it leads. Proved and nominal ε are lines of their own; what
    claims nothing is a horizontal line.
    """
    rows = tables.summarize(results)
    with_claim = [row for row in rows if row.status]
    method = next(
        (
            name
            for name in ("pld", "rdp")
            if with_claim
            and all(row.epsilon_spent.get(name) is not None for row in with_claim)
        ),
        "",
    )
    lines: dict[tuple[str, str], list[tables.SummaryRow]] = {}
    for row in rows if method else []:
        lines.setdefault((row.mechanism, row.status.get(method, "")), []).append(row)
    budgets = sorted(row.epsilon_spent[method] or 0.0 for row in with_claim) or [
        0.0,
        1.0,
    ]
    wide = budgets[0] > 0 and budgets[-1] > _WIDE * budgets[0]
    series = []
    for (name, status), of_line in lines.items():
        points = sorted(of_line, key=lambda row: row.epsilon_spent.get(method) or 0.0)
        if not status:
            points = points[:1] * 2
        half = [
            None
            if row.last5_std is None
            else student.half_width(row.last5_std, row.num_seeds)
            for row in points
        ]
        mean = [row.last5_mean for row in points]
        series.append(
            Series(
                keys={"mechanism": name, "status": status},
                name=spent.marked(mechanisms.about(name).label, status),
                x=[row.epsilon_spent[method] for row in points]
                if status
                else [0.9 * budgets[0], 1.1 * budgets[-1]],
                y=mean,
                lower=[_sum(m, h, -1) for m, h in zip(mean, half, strict=True)],
                upper=[_sum(m, h, +1) for m, h in zip(mean, half, strict=True)],
                look=style.of_mechanism(name),
                marks=bool(status),
            )
        )
    return Plot(
        "accuracy_epsilon",
        "Accuracy against ε of the run",
        "Mean of the last five evaluated rounds with its 95% confidence interval over"
        " seeds, by what the whole run has spent of its adversary's ε. A horizontal"
        " line claims nothing."
        + spent.neighbours_note(_meanings(results, method).values()),
        _spent_title(results, method) if method else "ε of the run",
        "test accuracy",
        series,
        log_x=wide,
        percent_y=True,
    )


def _curves(
    groups: Groups,
    field: Field,
    *,
    center: Callable[[Sequence[float]], float] = lambda v: sum(v) / len(v),
    skip_gaps: bool = False,
) -> list[Series]:
    names = list(dict.fromkeys(group.mechanism for group in groups))
    budgets = _levels(group.epsilon for group in groups)
    totals = _levels(group.total_epsilon for group in groups)
    curves = []
    for group, runs in groups.items():
        mechanism = group.mechanism
        rounds: dict[int, list[float]] = {}
        for row in (row for run in runs.values() for row in run):
            over_seeds = rounds.setdefault(row["round"], [])
            value = field(row)
            if value is not None:
                over_seeds.append(value)
        x = [t for t in sorted(rounds) if rounds[t] or not skip_gaps]
        label = mechanisms.about(mechanism).label
        suffix = f", {group.setting}" if group.setting else ""
        look = style.of_mechanism(mechanism)
        for level, levels in (
            (group.epsilon, budgets),
            (group.total_epsilon, totals),
        ):
            if level is not None:
                look = style.shaded(look, levels.index(level), len(levels))
        keys: dict[str, str | float | None] = {
            "mechanism": mechanism,
            "epsilon": group.epsilon,
        }
        if group.total_epsilon is not None:
            keys["total_epsilon"] = group.total_epsilon
        curves.append(
            Series(
                keys=keys,
                name=label + suffix,
                x=x,
                y=[center(rounds[t]) if rounds[t] else None for t in x],
                lower=[min(rounds[t], default=None) for t in x],
                upper=[max(rounds[t], default=None) for t in x],
                panel="" if mechanism == "none" and len(names) > 1 else label,
                name_in_panel=suffix.removeprefix(", ") or label,
                look=look,
            )
        )
    return curves


def _levels(values: Iterable[float | None]) -> list[float]:
    return sorted({value for value in values if value is not None})


def _read_field(name: str) -> Field:
    return lambda row: read.number(row.get(name))


def _spent_by(method: str) -> Field:
    return lambda row: read.number((row.get("epsilon_spent") or {}).get(method))


def _sum(mean: float | None, half: float | None, sign: int) -> float | None:
    return None if mean is None or half is None else mean + sign * half
