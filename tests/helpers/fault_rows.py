"""Rows of what was broken on purpose: how often it was tried, and how often it held.

A test of faults calls `keep` with its counts, which prints them. Where FEDSVP_FAULTS
names a file, the row is added to it, with its provenance; `python -m
experiments.frozen testing -- python -m tests.faults FILE` takes the rows into
docs/results/testing/faults.jsonl and writes the tables.
"""

import json
import os
from pathlib import Path
from typing import Any

from experiments import kept_rows, provenance

Row = dict[str, Any]


def keep(fault: str, case: str, *, tried: int, held: int, **more: Any) -> None:
    """Keeps one row.

    Args:
      fault: what was done, by its name in docs/results/testing.md.
      case: to what; a row replaces the former one of its fault and case.
      tried: how often.
      held: how often the promise was kept.
      more: what else was counted.
    """
    row = {"fault": fault, "case": case, "tried": tried, "held": held, **more}
    print("\n" + json.dumps(row))
    if file := os.environ.get("FEDSVP_FAULTS"):
        row["provenance"] = provenance.stamp(None, None)
        kept_rows.add(Path(file), row)
