"""How the results of membership inference are shown: tables and a picture."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.attacks import membership
from fedsvp_jax.report import figures
from fedsvp_jax.report.tables import markdown_table

from ..text_table import aligned

ROC_POINTS = np.concatenate([[0.0], np.logspace(-4, 0, 81)])  # false positive rates
_COLORS = ("#000000", "#D55E00", "#E69F00", "#009E73", "#0072B2", "#CC79A7")

Row = dict[str, Any]


def _cells(row: Row) -> tuple[str, ...]:
    """ε, round, attack, AUC and TPRs with their intervals, and three accuracies."""
    auc, low, high = (f"{row[name]:.3f}" for name in ("auc", "auc_low", "auc_high"))
    rates = (
        [row[name][level] for name in ("tpr", "tpr_low", "tpr_high")]
        for level in row["tpr"]
    )
    return (
        "–" if row["epsilon"] is None else f"{row['epsilon']:g}",
        str(row["round"]),
        row["attack"],
        f"{auc} ({low} to {high})",
        *(
            f"{100 * rate:.2f}% ({100 * least:.2f} to {100 * most:.2f})"
            for rate, least, most in rates
        ),
        *(
            f"{100 * row[name]:.0f}%"
            for name in ("accuracy_members", "accuracy_others", "test_accuracy")
        ),
    )


def terminal_table(rows: Sequence[Row]) -> str:
    """AUC and TPR at small FPR by mechanism, ε, round and attack, for a terminal."""
    rates = [f"TPR@{100 * rate:g}% (95 %)" for rate in membership.FALSE_POSITIVE_RATES]
    head = ("mechanism", "ε", "round", "attack", "AUC (95 %)", *rates)
    accuracies = ("members' accuracy", "others' accuracy", "test accuracy")
    return aligned(
        [(*head, *accuracies)] + [(row["mechanism"], *_cells(row)) for row in rows]
    )


def markdown(results: dict[str, Any]) -> str:
    """AUC and TPR at small FPR, for docs/attacks.md."""
    head = (
        "mechanism",
        "ε per upload",
        "round",
        "attack",
        "AUC (95 % interval)",
        *(
            f"TPR at {100 * rate:g} % FPR (95 % interval)"
            for rate in membership.FALSE_POSITIVE_RATES
        ),
        "accuracy on members",
        "accuracy on non-members",
        "accuracy on the test set",
    )
    rows = [[f"`{row['mechanism']}`", *_cells(row)] for row in results["rows"]]
    return (
        f"{results['shadows']} federations, {results['examples']} examples, "
        f"{results['label_noise']:.0%} of the labels random.\n\n"
        f"{markdown_table(head, rows)}"
    )


def draw(path: Path, rows: Sequence[Row]) -> None:
    """ROC curves of the last round, both axes logarithmic, one panel per attack."""
    last = max(row["round"] for row in rows)

    def panel(axes: Any, attack: str) -> None:
        shown = [r for r in rows if r["round"] == last and r["attack"] == attack]
        for number, row in enumerate(shown):
            name = row["mechanism"]
            name += "" if row["epsilon"] is None else f", ε = {row['epsilon']:g}"
            axes.plot(
                ROC_POINTS[1:],
                row["tpr_at"][1:],
                color=_COLORS[number % len(_COLORS)],
                label=name,
            )
        axes.plot([1e-4, 1], [1e-4, 1], color="#999999", linestyle=":", label="guess")
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            figures.plain_ticks(axis)
        axes.set_xlim(1e-4, 1)
        axes.set_ylim(1e-4, 1.05)
        axes.set_xlabel("false positive rate")
        axes.set_ylabel("true positive rate")
        titles = {"loss": "Loss threshold", "lira": "Likelihood ratio (LiRA)"}
        axes.set_title(f"{titles[attack]}, round {last}")

    figures.panels(
        path, [partial(panel, attack=attack) for attack in membership.SCORES]
    )
