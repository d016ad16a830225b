"""The verdicts of an audit, and how its results are shown: a table."""

import math
from collections.abc import Sequence
from typing import Any

from fedsvp_jax.core.student import holm_adjusted
from fedsvp_jax.report import text_table

from .audit_claims import ACCOUNTINGS

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


def over_seeds(by_seed: Sequence[Sequence[Row]]) -> list[Row]:
    """The first seed's rows, each with the number of seeds in which it is VIOLATED."""
    return [
        same_row[0] | {"violated_in": sum(r["status"] == "VIOLATED" for r in same_row)}
        for same_row in zip(*by_seed, strict=True)
    ]


def _number(value: float | None) -> str:
    return "inf" if value is None or math.isinf(value) else f"{value:.3g}"


def _line(row: Row, num_seeds: int) -> dict[str, str]:
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
        "verdict": row["status"],
        "VIOLATED in seeds": f"{row['violated_in']} of {num_seeds}",
    }


def terminal_table(rows: Sequence[Row], num_seeds: int) -> str:
    """Claims and audited bounds after one upload and after all, for a terminal."""
    return text_table.render([_line(row, num_seeds) for row in rows])
