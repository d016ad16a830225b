"""The paper's figures, drawn from rows."""

import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fedsvp_jax.influence import Verdict
from fedsvp_jax.report import figures
from fedsvp_jax.report import labels as palette

from .simulation import Simulation
from .tasks import Row

_CLEAN, _CORRUPTED, _LINE = "#0072B2", "#D55E00", "#333333"


def votes(path: pathlib.Path, simulation: Simulation, verdict: Verdict) -> None:
    """Figure 3: sums of true votes, of reports, and the threshold."""

    def draw(scores: np.ndarray, title: str, line: float | None, axes: Any) -> None:
        who = np.arange(len(scores))
        for name, color, chosen in (
            ("clean contributor", _CLEAN, ~simulation.corrupted),
            ("corrupted contributor", _CORRUPTED, simulation.corrupted),
        ):
            axes.scatter(who[chosen], scores[chosen], s=14, color=color, label=name)
        if line is not None:
            axes.axhline(line, color=_LINE, linestyle="--", label="threshold")
        axes.set_title(title)
        axes.set_xlabel("contributor")
        axes.set_ylabel("sum of votes")

    truth, told = np.asarray(verdict.true_scores), np.asarray(verdict.scores)
    threshold = float(verdict.threshold)
    figures.panels(
        path,
        [
            partial(draw, truth, "True votes", None),
            partial(draw, told, "Reported votes", threshold),
        ],
    )


def labels(path: pathlib.Path, counts: np.ndarray) -> None:
    """Figure 4: how many of a participant's examples are of each class."""

    def draw(axes: Any) -> None:
        who, label = np.nonzero(counts)
        axes.scatter(
            who, label, s=120 * counts[who, label] / counts.max(), color=_CLEAN
        )
        axes.set_title("Labels by participant, before the corruption")
        axes.set_xlabel("participant")
        axes.set_ylabel("class")

    figures.panels(path, [draw])


def lines(
    path: pathlib.Path,
    rows: Sequence[Row],
    *,
    x: str,
    by: str,
    shown: Sequence[str],
    names: dict[str, str],
) -> None:
    """One panel a measure, one line a value of `by`; bars are one std."""

    def draw(axes: Any, measure: str) -> None:
        for number, value in enumerate(dict.fromkeys(row[by] for row in rows)):
            own = [row for row in rows if row[by] == value]
            nan = float("nan")
            means = [nan if r[measure] is None else r[measure] for r in own]
            stds = [r.get(f"{measure}_std") or 0.0 for r in own]
            axes.errorbar(
                [row[x] for row in own],
                means,
                stds,
                color=palette.OKABE_ITO[number % len(palette.OKABE_ITO)],
                linestyle=figures.DASHES[number % len(figures.DASHES)],
                marker="o",
                markersize=3,
                linewidth=1.4,
                capsize=2,
                label=f"{names.get(by, by)} {'none' if value is None else value}",
            )
        axes.set_title(names.get(measure, measure))
        axes.set_xlabel(names.get(x, x))

    figures.panels(path, [partial(draw, measure=measure) for measure in shown])
