"""What discrete noise costs in accuracy: the table of docs/results/utility.md.

Rows are kept in docs/results/utility/noise_bits.json; the page says which code computed
them. A grid that was refused is kept with its reason.
"""

from collections.abc import Sequence
from typing import Any

from fedsvp_jax.report import labels, tables
from fedsvp_jax.report.text_table import markdown

from ..reproduce import estimates

Row = dict[str, Any]


def table(results: dict[str, Any]) -> str:
    """One line per mechanism and bits; differences are paired by seed."""
    return markdown([_line(row, results["rows"]) for row in results["rows"]])


def _line(row: Row, rows: Sequence[Row]) -> dict[str, str]:
    (plain,) = (
        one["accuracies"]
        for one in rows
        if _task(one) == _task(row) and one["bits"] is None
    )
    shared = row["mechanism"] == "dp_fedavg"
    line = {
        "data": row["dataset"],
        "noise is on": "the sum (dp_fedavg)" if shared else "each upload (gaussian)",
        "noise": f"discrete, {row['bits']} bits" if row["bits"] else "Gaussian",
        "accuracy %": "",
        "minus Gaussian, points": "–",
        "95 % interval": "–",
        "seeds": "–",
    }
    if row["refused"]:
        least = row["refused"].split(" for ")[0].removeprefix("noise_bits must be ")
        line["accuracy %"] = f"refused: needs {least} bits"
        return line
    found = row["accuracies"]
    gap = estimates.paired(found, plain)
    line["accuracy %"] = labels.percent(*tables.mean_std(found), digits=1)
    line["seeds"] = str(len(found))
    if row["bits"] and gap is not None and gap.interval is not None:
        low, high = gap.interval
        line["minus Gaussian, points"] = f"{gap.value:+.1f}"
        line["95 % interval"] = f"{low:+.1f} to {high:+.1f}"
    return line


def _task(row: Row) -> tuple[str, str]:
    return row["dataset"], row["mechanism"]
