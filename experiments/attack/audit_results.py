"""The verdicts of an audit, and how its results are shown: a table."""

import math
from collections.abc import Sequence
from typing import Any

from fedsvp_jax.core.student import holm_adjusted

from .. import printed
from .audit_claims import ACCOUNTINGS

_VERDICTS = ("holds", "no claim", "VIOLATED")

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
    counts = {v: sum(row["status"] == v for row in rows) for v in _VERDICTS}
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
        "verdict": row["status"],
    }


def terminal_table(rows: Sequence[Row]) -> str:
    """Claims and audited bounds after one upload and after all, for a terminal."""
    return printed.table([*map(_line, rows)])
