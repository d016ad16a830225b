"""Which claims an audit contradicts, all rows taken together."""

from collections.abc import Sequence
from typing import Any

from fedsvp_jax.student import holm

Row = dict[str, Any]


def beaten_claims(rows: Sequence[Row]) -> list[list[str]]:
    """Of each row the claims that Holm's test rejects at 5 %.

    The family is every claim of every row: with a probability of 95 % no true claim is
    among the rejected.
    """
    rejected = iter(holm([p for row in rows for p in row["p_values"].values()]))
    return [[name for name in row["p_values"] if next(rejected)] for row in rows]


def with_verdicts(rows: Sequence[Row]) -> list[Row]:
    """The rows of one seed with the claims that are rejected, and a verdict."""
    return [
        row
        | {
            "beaten": beaten,
            "status": (
                "holds" if not beaten else "VIOLATED" if row["claimed"] else "no claim"
            ),
        }
        for row, beaten in zip(rows, beaten_claims(rows), strict=True)
    ]
