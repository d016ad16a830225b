"""Tables as text, for a terminal and for a Markdown page.

A table is a list of rows, and a row is what it shows by column: `{"ε": "0.2", …}`. All
rows of a table have the same columns in the same order.
"""

import re
from collections.abc import Mapping, Sequence

_BARE_BAR = re.compile(r"(?<!\\)\|")
MISSING = "Not measured yet.\n"

Row = Mapping[str, str]


def aligned(rows: Sequence[Row]) -> str:
    """Columns of equal width, without Markdown's marks: the first flush left."""
    lines = [[*rows[0]], *([text.strip("*`") for text in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.rjust(width) if column else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown(rows: Sequence[Row]) -> str:
    """A Markdown table, or a sentence where there are no rows."""
    if not rows:
        return MISSING
    lines = [[*rows[0]], ["---"] * len(rows[0]), *([*row.values()] for row in rows)]
    escaped = [[_BARE_BAR.sub(r"\|", text) for text in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)
