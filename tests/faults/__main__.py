"""Takes rows of faults into docs/results/testing/faults.jsonl, and writes the tables.

    FEDSVP_FAULTS=/tmp/rows.jsonl make fuzz
    FEDSVP_FAULTS=/tmp/rows.jsonl FEDSVP_USERS_COMPILER=1 \\
        python -m pytest -s -m slow tests/run/test_faults_of_power.py
    python -m tests.faults /tmp/rows.jsonl
"""

import json
import sys
from pathlib import Path

from experiments import kept_rows

from ..mutants.page import DOCS, FAULTS, write_pages

if __name__ == "__main__":
    files = [DOCS / FAULTS, *map(Path, sys.argv[1:])]
    rows = [row for file in files for row in kept_rows.read(file)]
    newest = {(row["fault"], row["case"]): row for row in rows}
    text = "".join(f"{json.dumps(newest[name])}\n" for name in sorted(newest))
    (DOCS / FAULTS).write_text(text)
    write_pages(DOCS)
