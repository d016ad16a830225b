"""The tables of membership inference, the audit and gradient inversion in docs."""

from collections.abc import Sequence
from typing import Any

from fedsvp_jax.attacks.membership import FALSE_POSITIVE_RATES

from . import audit, membership


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def inversion_table(found: dict[str, Any]) -> str:
    """PSNR and SSIM by defence and way of matching."""
    rows = []
    for row in found["defences"]:
        claim = "–" if row["epsilon"] is None else f"{row['epsilon']:.3g}"
        std = f", std {row['noise_std']:g}" if row["mechanism"] == "gaussian" else ""
        rows.append(
            [
                f"`{row['mechanism']}`{std}",
                "–" if row["mechanism"] == "none" else f"`{row['sensitivity']}`",
                claim,
                f"{row['noise_over_gradient']:.3g}",
                row["match"],
                f"{row['psnr_mean']:.1f} ({row['psnr_min']:.1f} to "
                f"{row['psnr_max']:.1f})",
                f"{row['ssim_mean']:.2f}",
                f"{row['labels_read']} of {row['victims']}",
            ]
        )
    guess = found["mean_image"]
    rows.append(
        [
            *("mean image, no upload", "–", "–", "–", "–"),
            f"{guess['psnr']:.1f}",
            f"{guess['ssim']:.2f}",
            "–",
        ]
    )
    head = (
        "defence",
        "sensitivity",
        "ε claimed",
        "noise over gradient",
        "match",
        "PSNR in dB, mean (least to most)",
        "SSIM",
        "labels read",
    )
    return _table(head, rows)


def audit_table(found: dict[str, Any]) -> str:
    """Claims and audited bounds after all uploads; violated rows in bold."""
    last = max(row["uploads"] for row in found["rows"])
    rows = []
    for row in found["rows"]:
        if row["uploads"] != last:
            continue
        numbers = list(audit.cells(row)[1:])
        if row["status"] == "VIOLATED":
            numbers[-1] = "**VIOLATED**"
        rows.append(
            [
                f"`{row['mechanism']}`",
                f"`{row['sensitivity']}`",
                row["worlds"],
                *numbers,
            ]
        )
    head = (
        "mechanism",
        "sensitivity",
        "worlds",
        "status",
        "basic",
        "RDP",
        "PLD",
        "audited ≥",
        "audited ≥ at the basic δ",
        "verdict",
    )
    total = {
        status: sum(row["status"] == status for row in found["rows"])
        for status in ("holds", "no claim", "VIOLATED")
    }
    text = ", ".join(f"{count} {status}" for status, count in total.items())
    return (
        f"ε after {last} uploads; {found['trials']} games in each world.\n\n"
        f"{_table(head, rows)}\n\n"
        f"Of all {len(found['rows'])} rows, after 1 and after {last} uploads: {text}."
    )


def membership_table(found: dict[str, Any]) -> str:
    """AUC and TPR at small FPR by mechanism, ε, round and attack."""
    rows = []
    for row in found["rows"]:
        epsilon, number, attack, auc, low, high, *rest = membership.cells(row)
        rows.append(
            [
                f"`{row['mechanism']}`",
                epsilon.replace("-", "–"),
                number,
                attack,
                f"{auc} ({low} to {high})",
                *rest,
                f"{100 * row['test_accuracy']:.0f}%",
            ]
        )
    head = (
        "mechanism",
        "ε an upload",
        "round",
        "attack",
        "AUC (95 %)",
        *(f"TPR at {100 * rate:g} % FPR" for rate in FALSE_POSITIVE_RATES),
        "accuracy on members",
        "on the others",
        "on the test set",
    )
    return (
        f"{found['shadows']} federations, {found['examples']} examples, "
        f"{found['label_noise']:.0%} of the labels random.\n\n{_table(head, rows)}"
    )
