"""Takes rows of faults into docs/results/testing/faults.jsonl, and writes the pages.

    FEDSVP_FAULTS=/tmp/rows.jsonl make fuzz
    FEDSVP_FAULTS=/tmp/rows.jsonl FEDSVP_USERS_COMPILER=1 \\
        python -m pytest -s -m slow tests/run/test_faults_of_power.py
    python -m tests.faults /tmp/rows.jsonl
"""

import json
import sys
from pathlib import Path

from experiments import kept_rows

from ..mutants import page as pages
from .page import FILE
from .rows import joined


def main(files: list[str]) -> None:
    kept = pages.DOCS / FILE
    new = [row for file in files for row in kept_rows.read(Path(file))]
    rows = joined(kept_rows.read(kept), new)
    kept.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    pages.write_pages(pages.DOCS)


if __name__ == "__main__":
    main(sys.argv[1:])
