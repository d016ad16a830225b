"""The curves of one run, from metrics.jsonl."""

import dataclasses
from collections.abc import Sequence
from functools import partial

from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.report import labels, read, spent, style
from fedsvp_jax.report.plots import Plot, Series, drawable, noisy

BLACK, BLUE, VERMILION = map(style.numbered, range(3))


def run_plots(run: read.RunFiles) -> list[Plot]:
    """Accuracy, loss, noise, contribution ratio and cumulative ε by round.

    A plot without a single number (a mechanism that adds no noise or has no
    contribution ratio) is left out.
    """
    metrics = run.metrics
    meanings = {
        method: meaning(run.summary, word)
        for method, word in (run.summary.get("status") or {}).items()
    }
    every_round = partial(_field, metrics)
    evaluated = partial(_field, metrics, skip_gaps=True)
    look = style.of_mechanism(str(run.config.get("mechanism")))
    beside = look._replace(marker="diamond", dash="dot")
    measured, note = "test", ""
    loss_name = run.config.get("loss")
    loss = f"loss ({loss_name})" if loss_name else "cross-entropy"
    if any(row.get("validation_accuracy") is not None for row in metrics):
        measured = "test and validation"
        note = " The server's validation set chooses the best round."
    plots = [
        Plot(
            "accuracy",
            f"{measured.capitalize()} accuracy by round",
            "Rounds that were not evaluated are skipped." + note,
            "round",
            f"{measured} accuracy",
            [
                evaluated("test_accuracy", "accuracy", look),
                evaluated("validation_accuracy", "on the validation set", beside),
            ],
            percent_y=True,
        ),
        Plot(
            "group_accuracy",
            "Test accuracy of groups by round",
            "On the test examples of the private classes, and of the tenth of clients"
            " with the worst accuracy (by the classes of their training examples).",
            "round",
            "test accuracy",
            [
                evaluated("private_accuracy", "private classes", VERMILION),
                evaluated("worst_tenth_accuracy", "worst tenth of clients", BLACK),
            ],
            percent_y=True,
        ),
        Plot(
            "loss",
            f"{measured.capitalize()} loss by round",
            f"Mean {loss} on the {measured} set." + note,
            "round",
            f"{measured} loss",
            [
                evaluated("test_loss", "loss", look),
                evaluated("validation_loss", "on the validation set", beside),
            ],
        ),
        Plot(
            "noise",
            "Injected noise by round",
            "L2 norm of the noise vector on an upload (mean over the round's uploads),"
            " and of the noise that is left in their average.",
            "round",
            "L2 norm",
            noisy(
                [
                    every_round("noise_l2", "one upload (mean)", look),
                    every_round("aggregate_noise_l2", "their average", BLUE),
                ]
            ),
        ),
        Plot(
            "noise_std",
            "Noise standard deviation by round",
            "σ of the Gaussian noise on every weight of an upload, mean over the"
            " cohort.",
            "round",
            "σ",
            noisy([every_round("noise_std_mean", "σ (mean)", look)]),
        ),
        Plot(
            "step_noise_std",
            "Noise in the local steps by round",
            "With --sensitivity=per_example, σ of the Gaussian noise on the gradient of"
            " every local step, mean over the cohort. The upload itself gets none.",
            "round",
            "σ per step",
            noisy([every_round("step_noise_std_mean", "σ per step", look)]),
        ),
        Plot(
            "ratio",
            "Contribution ratio by round",
            "R: the private attribute's share of a client's validation accuracy, mean"
            " over the cohort. Band: smallest to largest R of the cohort.",
            "round",
            "contribution ratio R",
            [_ratio(run, look)],
        ),
        Plot(
            "epsilon",
            "Cumulative ε by accounting method",
            "ε that the client with the most privacy loss has spent, by each method."
            " PLD is computed after the last round only (single marker)."
            + spent.neighbours_note(meanings.values()),
            "round",
            spent.axis_title(meanings),
            _spent(run),
        ),
    ]
    return drawable(plots)


def _field(
    rows: Sequence[read.Row],
    field: str,
    name: str,
    look: style.Look,
    *,
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
        look=look,
    )


def _ratio(run: read.RunFiles, look: style.Look) -> Series:
    by_round: dict[int, list[float]] = {}
    for row in run.clients:
        value = read.number(row.get("contribution_ratio"))
        if value is not None:
            by_round.setdefault(row["round"], []).append(value)
    rounds = [row["round"] for row in run.metrics]
    return dataclasses.replace(
        _field(run.metrics, "contribution_ratio_mean", "cohort mean", look),
        lower=[min(by_round.get(t, ()), default=None) for t in rounds],
        upper=[max(by_round.get(t, ()), default=None) for t in rounds],
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
            name=_named_with_delta(method, run.summary),
            x=x,
            y=y,
            look=style.numbered(index),
        )
        for index, (method, (x, y)) in enumerate(curves.items())
    ]


def _named_with_delta(method: str, summary: read.Row) -> str:
    """`Rényi DP, δ = 1e-05`; basic's Σδ is that of the last round."""
    delta = spent.delta_text(method, summary)
    return ", ".join(filter(None, [labels.method_label(method), delta]))
