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
    """Keeps one row: what was done (docs/results/testing.md has the names), to what."""
    row = {"fault": fault, "case": case, "tried": tried, "held": held, **more}
    print("\n" + json.dumps(row))
    if file := os.environ.get("FEDSVP_FAULTS"):
        row["provenance"] = provenance.stamp(None, None)
        kept_rows.add(Path(file), row)
