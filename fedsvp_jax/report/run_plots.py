"""The curves of one run, from metrics.jsonl."""

from collections.abc import Sequence

from fedsvp_jax.report import labels, read
from fedsvp_jax.report.plots import Plot, Series, drawable, noisy

BLACK, BLUE, ORANGE = labels.OKABE_ITO[:3]


def run_plots(run: read.RunFiles) -> list[Plot]:
    """Accuracy, loss, noise, contribution ratio and cumulative ε by round.

    A plot without a single number (a mechanism that adds no noise or has no
    contribution ratio) is left out.
    """
    metrics = run.metrics
    plots = [
        Plot(
            "accuracy",
            "Test accuracy by round",
            "Rounds that were not evaluated are skipped.",
            "round",
            "test accuracy",
            [_field(metrics, "test_accuracy", "accuracy", BLUE, skip_gaps=True)],
            percent_y=True,
        ),
        Plot(
            "loss",
            "Test loss by round",
            "Mean cross-entropy on the test set.",
            "round",
            "test loss",
            [_field(metrics, "test_loss", "loss", ORANGE, skip_gaps=True)],
        ),
        Plot(
            "noise",
            "Injected noise by round",
            "L2 norm of the noise vector: the mean over one round's uploads, and what"
            " is left of it in their average.",
            "round",
            "L2 norm",
            noisy(
                [
                    _field(metrics, "noise_l2", "one upload (mean)", ORANGE),
                    _field(
                        metrics, "aggregate_noise_l2", "their average", BLACK, dash=1
                    ),
                ]
            ),
        ),
        Plot(
            "noise_std",
            "Noise standard deviation by round",
            "Mean over the cohort of σ, the std added to every weight.",
            "round",
            "σ",
            noisy([_field(metrics, "noise_std_mean", "σ (mean)", ORANGE)]),
        ),
        Plot(
            "ratio",
            "Contribution ratio by round",
            "R: the private attribute's share of the accuracy; band: the smallest to"
            " the largest of the cohort.",
            "round",
            "contribution ratio R",
            [_ratio(run)],
        ),
        Plot(
            "epsilon",
            "Cumulative ε by accounting",
            "The same uploads, added up by each method; a method that is computed at"
            " the end alone is a point.",
            "round",
            "ε spent",
            _spent(run),
        ),
    ]
    return drawable(plots)


def _field(
    rows: Sequence[read.Row],
    field: str,
    name: str,
    color: str,
    *,
    dash: int = 0,
    skip_gaps: bool = False,
) -> Series:
    points = [(row["round"], read.number(row.get(field))) for row in rows]
    if skip_gaps:
        points = [point for point in points if point[1] is not None]
    return Series(
        keys={"series": name},
        name=name,
        x=[x for x, _ in points],
        y=[y for _, y in points],
        color=color,
        dash=dash,
    )


def _ratio(run: read.RunFiles) -> Series:
    by_round: dict[int, list[float]] = {}
    for row in run.clients:
        value = read.number(row.get("contribution_ratio"))
        if value is not None:
            by_round.setdefault(row["round"], []).append(value)
    rounds = [row["round"] for row in run.metrics]
    mean = _field(run.metrics, "contribution_ratio_mean", "cohort mean", BLUE)
    return Series(
        keys={"series": "cohort mean"},
        name="cohort mean",
        x=mean.x,
        y=mean.y,
        lower=[min(by_round[t]) if t in by_round else None for t in rounds],
        upper=[max(by_round[t]) if t in by_round else None for t in rounds],
        color=BLUE,
    )


def _spent(run: read.RunFiles) -> list[Series]:
    curves: dict[str, tuple[list[float | None], list[float | None]]] = {}
    for row in run.metrics:
        for method, value in (row.get("epsilon_spent") or {}).items():
            x, y = curves.setdefault(method, ([], []))
            x.append(row["round"])
            y.append(read.number(value))
    last = run.metrics[-1]["round"]
    for method, value in (run.summary.get("epsilon_spent") or {}).items():
        curves.setdefault(method, ([last], [read.number(value)]))
    return [
        Series(
            keys={"accounting": method},
            name=labels.method_label(method),
            x=x,
            y=y,
            color=labels.OKABE_ITO[index % len(labels.OKABE_ITO)],
            dash=index,
        )
        for index, (method, (x, y)) in enumerate(curves.items())
    ]
