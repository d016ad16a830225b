"""Tables and a picture of the results of membership inference."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax import mechanisms
from fedsvp_jax.attacks import membership
from fedsvp_jax.report import figures, style

from . import upload_claims

ROC_POINTS = np.concatenate([[0.0], np.logspace(-4, 0, 81)])  # false positive rates

Row = dict[str, Any]


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """AUC and TPR at small FPR by mechanism, ε, round and attack, as texts."""
    return [
        {
            "mechanism": f"`{row['mechanism']}`",
            "largest ε per upload": upload_claims.claim_text(row),
            "round": str(row["round"]),
            "attack": row["attack"],
            "AUC (95 % interval)": (
                f"{row['auc']:.3f} ({row['auc_low']:.3f} to {row['auc_high']:.3f})"
            ),
            **{
                f"TPR at {100 * rate:g} % FPR (95 % interval)": (
                    f"{100 * row['tpr'][level]:.2f}% "
                    f"({100 * row['tpr_low'][level]:.2f} to "
                    f"{100 * row['tpr_high'][level]:.2f})"
                )
                for rate, level in zip(
                    membership.FALSE_POSITIVE_RATES, row["tpr"], strict=True
                )
            },
            "accuracy on members": f"{100 * row['accuracy_members']:.0f}%",
            "accuracy on non-members": f"{100 * row['accuracy_others']:.0f}%",
            "accuracy on the test set": f"{100 * row['test_accuracy']:.0f}%",
        }
        for row in rows
    ]


def draw(path: Path, rows: Sequence[Row]) -> None:
    """ROC curves of the last round, both axes logarithmic, one panel per attack."""
    last = max(row["round"] for row in rows)

    def panel(axes: Any, attack: str) -> None:
        selected = [r for r in rows if r["round"] == last and r["attack"] == attack]
        for row in selected:
            name = mechanisms.about(row["mechanism"]).label
            if row["status"] is not None:
                name += f", ε = {upload_claims.claim_text(row)}"
            levels = sorted(
                other["epsilon"]
                for other in selected
                if other["mechanism"] == row["mechanism"] and other["epsilon"]
            )
            look = style.of_mechanism(row["mechanism"])
            if row["epsilon"]:
                place = levels.index(row["epsilon"])
                look = style.shaded(look, place, len(levels))
            rates = ROC_POINTS[1:].tolist()
            figures.curve(axes, rates, row["tpr_at"][1:], look, label=name)
        axes.plot([1e-4, 1], [1e-4, 1], color=style.GREY, linestyle=":", label="guess")
        axes.set_xlim(1e-4, 1)
        axes.set_ylim(1e-4, 1.05)
        for which in "xy":
            figures.log_axis(axes, which)
        axes.set_xlabel("false positive rate")
        axes.set_ylabel("true positive rate")
        titles = {"loss": "Loss threshold", "lira": "Likelihood ratio (LiRA)"}
        axes.set_title(f"{titles[attack]}, round {last}")

    figures.panels(
        path, [partial(panel, attack=attack) for attack in membership.SCORES]
    )
