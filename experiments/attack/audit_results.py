"""How the results of the audit are shown: tables and a picture."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax.report import figures
from fedsvp_jax.report.text_table import aligned, markdown

ACCOUNTINGS = ("basic", "rdp", "pld")
_COLORS = {"holds": "#0072B2", "no claim": "#E69F00", "VIOLATED": "#D55E00"}

Row = dict[str, Any]


def verdicts(rows: Sequence[Row]) -> str:
    """How many rows have each verdict."""
    counts = {v: sum(row["status"] == v for row in rows) for v in _COLORS}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def _number(value: float | None) -> str:
    return "inf" if value is None or math.isinf(value) else f"{value:.3g}"


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Claims and the largest audited bounds by case, as texts."""
    return [
        {
            "mechanism": f"`{row['mechanism']}`",
            "sensitivity": f"`{row['sensitivity']}`",
            "worlds": row["worlds"],
            "ε is": "proved" if row["proved"] else "nominal",
            "claimed ε: basic": _number(row["claims"]["basic"]),
            "claimed ε: RDP": _number(row["claims"]["rdp"]),
            "claimed ε: PLD": _number(row["claims"]["pld"]),
            "audited ε ≥": _number(max(row["audited"].values())),
            "audited ε ≥ at the basic δ": _number(
                max(row["audited_at_basic_delta"].values())
            ),
            "verdict": row["status"].replace("VIOLATED", "**VIOLATED**"),
        }
        for row in rows
    ]


def terminal_table(rows: Sequence[Row]) -> str:
    """Claims and audited bounds after one upload and after all, for a terminal."""
    return aligned(
        [
            cells | {"uploads": str(row["uploads"])}
            for row, cells in zip(rows, table(rows), strict=True)
        ]
    )


def page(results: dict[str, Any]) -> str:
    """Claims and audited bounds after all uploads: the block of docs/attacks.md."""
    rows = results["rows"]
    last = max(row["uploads"] for row in rows)
    return (
        f"ε after {last} uploads, from {results['trials']} games in each world.\n\n"
        f"{markdown(table([row for row in rows if row['uploads'] == last]))}\n"
        f"All {len(rows)} rows, after 1 and after {last} uploads: {verdicts(rows)}."
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
