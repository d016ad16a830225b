"""The table of docs/results/own_data.md: what --goal=proved leaves at ε = 3.

Its rows are kept in docs/results/goal.jsonl; the page says which code computed them.
"""

import pathlib
import statistics
from typing import Any

from fedsvp_jax.report.text_table import markdown

from . import docs_blocks

FILE = "goal.jsonl"


def _spread(values: list[float], digits: int) -> str:
    """Mean ± standard deviation over seeds."""
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.{digits}f} ± {std:.{digits}f}"


def table(rows: list[dict[str, Any]]) -> str:
    """One line per table and number of clients: mean and std over seeds."""
    lines = []
    for name, clients in dict.fromkeys((row["table"], row["clients"]) for row in rows):
        of = [row for row in rows if (row["table"], row["clients"]) == (name, clients)]
        bare = [row["fedavg"] for row in of]
        percent = _spread([100 * row["accuracy"] for row in of], 1)
        lines.append(
            {
                "table": name.replace("_", " "),
                "clients": f"{clients}, by name" if of[0]["named"] else str(clients),
                "accuracy %": percent,
                "AUC": _spread([row["auc"] for row in of], 3),
                "FedAvg, which hides nothing": _spread(
                    [100 * one["accuracy"] for one in bare], 1
                ),
                "guessing %": f"{100 * of[0]['guessing']:.1f}",
                "test rows": f"{of[0]['provenance']['data']['test']:,}",
                "seeds": str(len(of)),
                "status": ", ".join(dict.fromkeys(row["status"] for row in of)),
            }
        )
    return markdown(lines)


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes the table from the kept rows."""
    block = docs_blocks.made_from(docs_dir / "results" / FILE, table)
    return docs_blocks.rewrite(docs_dir / "own_data.md", {"goal": block})
