"""Writes the measured table of docs/results/features.md.

Its rows are the files of docs/results/features; the page says which code computed them.
"""

import itertools
import math
import pathlib
from collections.abc import Iterable
from typing import Any

from fedsvp_jax.report.text_table import markdown

from .. import docs_blocks, kept_rows

FULL_BATCH = 1_000_000  # more than any client holds: one step is an epoch
_FEATURES = {
    "scatter_linear": "scattering",
    "scatter_channels_linear": "scattering, by channel",
    "lite0_linear": "EfficientNet-Lite0",
}

Row = dict[str, Any]


def rows(docs_dir: pathlib.Path) -> list[Row]:
    """All rows that are kept, by file."""
    files = sorted((docs_dir / "results" / "features").glob("*.jsonl"))
    return [row for file in files for row in kept_rows.read(file)]


def table(kept: Iterable[Row]) -> str:
    """A line for each cell: the mean of its runs, with the least and the largest."""
    lines = []
    ordered = sorted(kept, key=lambda row: row["name"])
    groups = [list(g) for _, g in itertools.groupby(ordered, lambda row: row["name"])]
    groups.sort(key=lambda group: _place(group[0]))
    for group in groups:
        first = group[0]
        noisy, batch = first["epsilon"] is not None, first["batch_size"]
        lines.append(
            {
                "data": first["dataset"],
                "features": _FEATURES[first["model"]],
                "clients": str(first["clients"]),
                "ε (PLD)": f"{max(row['epsilon'] for row in group):.2f}"
                if noisy
                else "no noise",
                "hides that a record is": _hidden(first["relation"]),
                "from": _adversary(first),
                "status": first["status"] or "–",
                "accuracy, %": docs_blocks.mean_and_range(
                    [row["accuracy"] for row in group]
                ),
                "runs": str(len(group)),
                "epochs": _epochs(first),
                "B": "all" if batch == FULL_BATCH else str(batch),
                "C": f"{first['l2_norm_clip']:g}" if noisy else "–",
                "step size": f"{first['learning_rate']:g}",
            }
        )
    return markdown(lines)


def _hidden(relation: str | None) -> str:
    if relation is None:
        return "–"
    return "replaced" if relation.startswith("replace") else "left out"


def _adversary(row: Row) -> str:
    """Whom the ε is against; rows of shuffled batches are all against the server."""
    if row["relation"] is None:
        return "–"
    return "server" if row.get("against", "server") == "server" else "other clients"


def _epochs(row: Row) -> str:
    if row.get("batches") == "poisson":
        return f"{row['num_rounds']} steps"
    return str(row["local_epochs"] * row["num_rounds"])


def _place(row: Row) -> tuple[str, str, int, float]:
    epsilon = row["epsilon"] or math.inf
    return row["dataset"], row["model"], row["clients"], -epsilon


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes the table from the kept rows; returns the page's path."""
    blocks = {"heads": lambda: table(rows(docs_dir))}
    return docs_blocks.rewrite(docs_dir / "results" / "features.md", blocks)
