"""The paper's figures, drawn from the results."""

import json
import pathlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fedsvp_jax.report import figures, style

from .tasks import Result

_CLEAN, _CORRUPTED = style.numbered(1), style.numbered(2)
_LABELS = {
    "influence_epochs": "epochs of a contributor",
    "influence_learning_rate": "step size",
    "num_participants": "participants",
    "vote_epsilon": "ε of a vote",
    "corrupted_share": "share of corrupted clients",
    "accuracy": "test accuracy of the federation",
    "f1": "F1",
}
# Figure -> what its x axis, its lines and its panels show.
_GRIDS = {
    "figure2": ("corrupted_share", "filter", ("accuracy",)),
    "figure5": ("influence_epochs", "influence_learning_rate", ("f1",)),
    "figure6": ("num_participants", "vote_epsilon", ("recall", "precision")),
}


def draw(
    folder: pathlib.Path, summary: dict[str, Any], prefix: str = "", kind: str = "svg"
) -> list[pathlib.Path]:
    """Draws those of figures 2 to 6 that the summary holds; returns their paths."""
    drawn = []
    for figure, one in (("figure3", _votes), ("figure4", _labels)):
        if figure in summary:
            drawn.append(one(folder / f"{prefix}{figure}.{kind}", summary[figure]))
    for figure, (x, by, measures) in _GRIDS.items():
        if figure in summary:
            path = folder / f"{prefix}{figure}.{kind}"
            drawn.append(_lines(path, summary[figure], x, by, measures))
    return drawn


def draw_kept(docs_dir: pathlib.Path, kind: str = "svg") -> list[pathlib.Path]:
    """Draws the figures of influence.md from the kept outcomes; returns their paths."""
    drawn = []
    for name, outcome in kept_outcomes(docs_dir).items():
        summary, on_page = outcome["summary"], shown(name, docs_dir)
        points = {key: summary[key] for key in summary if key in on_page}
        drawn += draw(docs_dir / "images", points, f"influence_{name}_", kind)
    return drawn


def kept_outcomes(docs_dir: pathlib.Path) -> dict[str, Any]:
    """The outcomes of results/influence, by name."""
    files = sorted((docs_dir / "results" / "influence").glob("*.json"))
    return {file.stem: json.loads(file.read_text()) for file in files}


def shown(name: str, docs_dir: pathlib.Path) -> set[str]:
    """The figures of an outcome that influence.md shows."""
    text = (docs_dir / "influence.md").read_text()
    return set(re.findall(rf"images/influence_{re.escape(name)}_(figure\d)\.svg", text))


def _votes(path: pathlib.Path, points: dict[str, Any]) -> pathlib.Path:
    """Figure 3: sums of true votes, sums of reported votes, and the threshold."""
    corrupted = np.asarray(points["corrupted"], bool)

    def draw(votes: str, title: str, line: float | None, axes: Any) -> None:
        scores = np.asarray(points[votes])
        contributors = np.arange(len(scores))
        for name, look, shown in (
            ("clean contributor", _CLEAN, ~corrupted),
            ("corrupted contributor", _CORRUPTED, corrupted),
        ):
            marks = look.for_matplotlib() | {"linestyle": "none"}
            axes.plot(contributors[shown], scores[shown], **marks, label=name)
        if line is not None:
            axes.axhline(line, color=style.GREY, linestyle="--", label="threshold")
        axes.set_title(title)
        axes.set_xlabel("contributor")
        axes.set_ylabel("sum of votes")

    return figures.panels(
        path,
        [
            partial(draw, "true", "True votes", None),
            partial(draw, "reported", "Reported votes", points["threshold"]),
        ],
    )


def _labels(path: pathlib.Path, class_counts: Sequence[Sequence[int]]) -> pathlib.Path:
    """Figure 4: examples per participant and class, (M, C)."""
    counts = np.asarray(class_counts)

    def draw(axes: Any) -> None:
        participant, label = np.nonzero(counts)
        sizes = 60 * counts[participant, label] / counts.max()
        axes.scatter(participant, label, s=sizes, color=_CLEAN.color)
        axes.set_title("Labels by participant, before the corruption")
        axes.set_xlabel("participant")
        axes.set_ylabel("class")

    return figures.panels(path, [draw])


def _lines(
    path: pathlib.Path,
    results: Sequence[Result],
    x: str,
    by: str,
    measures: Sequence[str],
) -> pathlib.Path:
    """One panel per measure, one line per value of `by`; bars are one std."""

    def draw(axes: Any, measure: str) -> None:
        values = list(dict.fromkeys(result[by] for result in results))
        for number, value in enumerate(values):
            line = [result for result in results if result[by] == value]
            stds = [result.get(f"{measure}_std") or 0.0 for result in line]
            figures.curve(
                axes,
                [result[x] for result in line],
                [result[measure] for result in line],
                style.numbered(number),
                label=f"{_LABELS.get(by, by)} {'none' if value is None else value}",
                margins=(stds, stds),
                nudge=3 * (number - (len(values) - 1) / 2),
            )
        axes.set_title(_LABELS.get(measure, measure).capitalize())
        axes.set_xlabel(_LABELS.get(x, x))

    return figures.panels(
        path, [partial(draw, measure=measure) for measure in measures]
    )
