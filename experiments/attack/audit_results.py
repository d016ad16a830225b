"""How the results of the audit are shown: tables and a picture."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax.report import figures
from fedsvp_jax.report.tables import markdown_table

from ..text_table import aligned

ACCOUNTINGS = ("basic", "rdp", "pld")
_COLORS = {"holds": "#0072B2", "no claim": "#E69F00", "VIOLATED": "#D55E00"}

Row = dict[str, Any]


def verdicts(rows: Sequence[Row]) -> str:
    """How many rows have each verdict."""
    counts = {v: sum(row["status"] == v for row in rows) for v in _COLORS}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def _cells(row: Row) -> tuple[str, ...]:
    """Whether ε is proved, ε by accounting, the largest audited bounds, the verdict."""
    return (
        "proved" if row["proved"] else "nominal",
        *(_number(row["claims"][method]) for method in ACCOUNTINGS),
        _number(max(row["audited"].values())),
        _number(max(row["audited_at_basic_delta"].values())),
        row["status"],
    )


def _number(value: float | None) -> str:
    return "inf" if value is None or math.isinf(value) else f"{value:.3g}"


def terminal_table(rows: Sequence[Row]) -> str:
    """Claims and audited bounds after one upload and after all, for a terminal."""
    head = (
        *("mechanism", "sensitivity", "worlds", "uploads", "ε is", "basic", "RDP"),
        *("PLD", "audited ≥", "audited ≥ at the basic δ", "verdict"),
    )
    return aligned(
        [head]
        + [
            (
                row["mechanism"],
                row["sensitivity"],
                row["worlds"],
                str(row["uploads"]),
                *_cells(row),
            )
            for row in rows
        ]
    )


def markdown(results: dict[str, Any]) -> str:
    """Claims and audited bounds after all uploads, for docs/attacks.md."""
    all_rows = results["rows"]
    last = max(row["uploads"] for row in all_rows)
    lines = []
    for row in all_rows:
        if row["uploads"] != last:
            continue
        *numbers, verdict = _cells(row)
        lines.append(
            [
                f"`{row['mechanism']}`",
                f"`{row['sensitivity']}`",
                row["worlds"],
                *numbers,
                f"**{verdict}**" if verdict == "VIOLATED" else verdict,
            ]
        )
    head = (
        "mechanism",
        "sensitivity",
        "worlds",
        "ε is",
        "claimed ε: basic",
        "claimed ε: RDP",
        "claimed ε: PLD",
        "audited ε ≥",
        "audited ε ≥ at the basic δ",
        "verdict",
    )
    return (
        f"ε after {last} uploads, from {results['trials']} games in each world.\n\n"
        f"{markdown_table(head, lines)}\n"
        f"All {len(all_rows)} rows, after 1 and after {last} uploads: "
        f"{verdicts(all_rows)}."
    )


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Audited ε against claimed ε (PLD); above the diagonal a claim is too small."""

    def panel(axes: Any) -> None:
        least = 1e-2
        for verdict, color in _COLORS.items():
            shown = [
                row for row in rows if row["status"] == verdict and row["claims"]["pld"]
            ]
            axes.scatter(
                [row["claims"]["pld"] for row in shown],
                [max(least, *row["audited"].values()) for row in shown],
                s=14,
                color=color,
                label=f"{verdict} ({len(shown)})",
            )
        ends = [least, 1e3]
        axes.plot(ends, ends, color="#555555", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            figures.plain_ticks(axis)
        axes.set_xlabel("claimed ε (PLD)")
        axes.set_ylabel("audited ε (a lower bound)")
        axes.set_title("Audited and claimed ε")

    figures.panels(path, [panel])
