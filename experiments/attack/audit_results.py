"""The verdicts of an audit."""

from collections.abc import Sequence

from fedsvp_jax.core.files import Record
from fedsvp_jax.core.student import holm_adjusted


def with_verdicts(rows: Sequence[Record]) -> list[Record]:
    """The rows of one seed with the claims that Holm's test rejects, and a verdict.

    The family is every claim of every row: with a probability of 95 % no true claim is
    among the rejected.
    """
    p_values = [p for row in rows for p in row["p_values"].values()]
    rejected = iter(holm_adjusted(p_values) <= 0.05)
    with_status = []
    for row in rows:
        beaten = [name for name in row["p_values"] if next(rejected)]
        refuted = "VIOLATED" if row["claimed"] else "no claim"
        with_status.append(
            row | {"beaten": beaten, "status": refuted if beaten else "holds"}
        )
    return with_status


def over_seeds(by_seed: Sequence[Sequence[Record]]) -> list[Record]:
    """The first seed's rows, each with the number of seeds in which it is VIOLATED."""
    return [
        same_row[0] | {"violated_in": sum(r["status"] == "VIOLATED" for r in same_row)}
        for same_row in zip(*by_seed, strict=True)
    ]
