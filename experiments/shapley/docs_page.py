"""Writes the measured parts of docs/shapley.md from docs/results/shapley.

python -m experiments.shapley.docs_page
"""

import pathlib

from fedsvp_jax.report.text_table import markdown

from .. import docs_blocks, kept_rows
from . import contributors, intervals, tables

_RULE, _KERNEL = "ShaplEIG's rule (our code)", "KernelSHAP, paired (shapiq)"
_LEVERAGE, _TREES = "LeverageSHAP (shapiq)", "regression MSR, trees (shapiq)"
PAIRS = [
    ("gp:N", "leave_one_out:N"),
    ("gp:N", f"{_RULE}, 2N"),
    ("gp:N", f"{_KERNEL}, 2N"),
    ("gp:N", f"{_LEVERAGE}, 2N"),
    ("gp:N", f"{_TREES}, 2N"),
    ("gp:N", "additive:N"),
    ("gp:N", "additive:0"),
    ("gp:N", "equal:0"),
    ("gp:3N", f"{_RULE}, 4N"),
    ("gp:3N", f"{_KERNEL}, 4N"),
    ("gp:3N", "OddSHAP (shapiq), 4N"),
    ("gp:3N", "ProxySPEX (shapiq), 4N"),
]

ARENA = ("arena", "arena_ridge")  # recorded games, and games of sixteen attributes


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes shapley.md's blocks from the kept rows; returns the page's path."""
    files = (docs_dir / "results" / "shapley" / f"{name}.jsonl" for name in ARENA)
    rows = [row for file in files for row in kept_rows.read(file)]
    played = tables.held_out([one for row in rows for one in row["played"]])
    held = kept_rows.read(docs_dir / intervals.FILE)[-1]
    return docs_blocks.rewrite(
        docs_dir / "shapley.md",
        {
            "compared": lambda: markdown(tables.compared(played, PAIRS)),
            "arena": lambda: markdown(tables.summary(played)),
            "unanimity": lambda: intervals.sentence(held),
            "intervals": lambda: markdown(intervals.table(held)),
            **contributors.blocks(docs_dir),
        },
    )


if __name__ == "__main__":
    docs_blocks.run(rewrite, __doc__)
