"""The verdicts of an audit, and how its results are shown: a table and a picture."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax.core.student import holm_adjusted
from fedsvp_jax.report import figures, style

from .. import printed
from .audit_claims import ACCOUNTINGS

_LOOKS = {
    "holds": style.numbered(1),
    "no claim": style.numbered(5),
    "VIOLATED": style.numbered(2),
}

Row = dict[str, Any]


def with_verdicts(rows: Sequence[Row]) -> list[Row]:
    """The rows of one seed with the claims that Holm's test rejects, and a verdict.

    The family is every claim of every row: with a probability of 95 % no true claim is
    among the rejected.
    """
    p_values = [p for row in rows for p in row["p_values"].values()]
    rejected = iter([p is not None and p <= 0.05 for p in holm_adjusted(p_values)])
    with_status = []
    for row in rows:
        beaten = [name for name in row["p_values"] if next(rejected)]
        refuted = "VIOLATED" if row["claimed"] else "no claim"
        with_status.append(
            row | {"beaten": beaten, "status": refuted if beaten else "holds"}
        )
    return with_status


def verdicts(rows: Sequence[Row]) -> str:
    """The number of rows with each verdict."""
    counts = {v: sum(row["status"] == v for row in rows) for v in _LOOKS}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def of_seed(seed: int, rows: Sequence[Row]) -> dict[str, Any]:
    """The record of a seed: its verdicts, and each row that is VIOLATED."""
    violated = [row for row in rows if row["status"] == "VIOLATED"]
    return {
        "seed": seed,
        "proved": sum(row["proved"] for row in rows),
        "proved_violated": [_name(row) for row in violated if row["proved"]],
        "violated": [_name(row) for row in violated],
    }


def _name(row: Row) -> str:
    return f"{row['mechanism']} {row['clipping']} {row['worlds']} {row['uploads']}"


def over_seeds(results: dict[str, Any]) -> str:
    """In how many audits a proved claim was contradicted."""
    seeds = results["seeds"]
    wrong = [name for seed in seeds for name in seed["proved_violated"]]
    wrong_names = f" ({', '.join(sorted(set(wrong)))})" if wrong else ""
    return (
        f"{len(seeds)} audits (seeds), {seeds[0]['proved']} proved rows in each: "
        f"{len(wrong)} of their verdicts are VIOLATED{wrong_names}."
    )


def _number(value: float | None) -> str:
    return "inf" if value is None or math.isinf(value) else f"{value:.3g}"


def _line(row: Row) -> dict[str, str]:
    """A row of the tables: the case, its claims, the largest audited bounds."""
    names = {"basic": "basic", "rdp": "RDP", "pld": "PLD"}
    return {
        "mechanism": row["mechanism"],
        "clipping": row["clipping"],
        "worlds": row["worlds"],
        "uploads": str(row["uploads"]),
        "ε is": "proved" if row["proved"] else "nominal",
        **{
            f"claimed ε: {names[method]}": _number(row["claims"][method])
            for method in ACCOUNTINGS
        },
        "audited ε ≥": _number(max(row["audited"].values())),
        "audited ε ≥ at the basic δ": _number(
            max(row["audited_at_basic_delta"].values())
        ),
        "verdict": row["status"],
    }


def terminal_table(rows: Sequence[Row]) -> str:
    """Claims and audited bounds after one upload and after all, for a terminal."""
    return printed.table([*map(_line, rows)])


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Audited ε against claimed ε (PLD); above the diagonal a claim is too small."""

    def panel(axes: Any) -> None:
        floor = 1e-2
        for verdict, look in _LOOKS.items():
            points = [
                row for row in rows if row["status"] == verdict and row["claims"]["pld"]
            ]
            axes.plot(
                [row["claims"]["pld"] for row in points],
                [max(floor, *row["audited"].values()) for row in points],
                **look.for_matplotlib() | {"linestyle": "none"},
                label=f"{verdict} ({len(points)})",
            )
        ends = [floor, 1e3]
        axes.plot(ends, ends, color=style.GREY)
        for which in "xy":
            figures.log_axis(axes, which)
        axes.set_xlabel("claimed ε (PLD)")
        axes.set_ylabel("audited ε (a lower bound)")
        axes.set_title("Audited and claimed ε")

    figures.panels(path, [panel])
