"""Tables as text: for a terminal and for a Markdown page.

A table is a list of rows, and a row is what it shows by column: `{"ε": "0.2", …}`. All
rows of a table have the same columns in the same order.
"""

import functools
import io
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence

from fedsvp_jax.core.files import printable

_BARE_BAR = re.compile(r"(?<!\\)\|")
LONG = 24  # characters of a cell that make a table hard to read
_WIDEST = 1000  # characters of a line where no terminal says its own
_broken = functools.partial(
    textwrap.fill, width=LONG, break_long_words=False, break_on_hyphens=False
)

Row = Mapping[str, str]
Table = list[dict[str, str]]  # rows of texts by column


def aligned(rows: Sequence[Row]) -> str:
    """Columns of equal width, without Markdown's marks: the first flush left.

    Text is broken into lines where the table would be wider than the terminal; where
    none says its width, long text between words.
    """
    from rich import box, console, table, text

    width = shutil.get_terminal_size((0, 0)).columns
    grid = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(rows[0]):
        justify: console.JustifyMethod = "right" if number else "left"
        grid.add_column(
            text.Text(name if width else _broken(name)),
            justify=justify,
            vertical="bottom",
            overflow="fold",
        )
    for row in rows:
        cells = (printable(cell.strip("*`")) for cell in row.values())
        grid.add_row(*(text.Text(cell if width else _broken(cell)) for cell in cells))
    file = io.StringIO()
    console.Console(file=file, width=width or _WIDEST).print(grid)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def markdown(rows: Sequence[Row]) -> str:
    """A Markdown table."""
    lines = [[*rows[0]], ["---"] * len(rows[0]), *([*row.values()] for row in rows)]
    escaped = [[_BARE_BAR.sub(r"\|", text) for text in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def without_shared(rows: Sequence[Row]) -> tuple[Sequence[Row], str]:
    """The rows without long cells that all of them share, and a sentence of these.

    A dash counts as equal to any other text of its column. Columns of dashes alone are
    left out too.
    """
    if not rows:
        return rows, ""
    texts = {name: {row[name] for row in rows} - {"–"} for name in [*rows[0]][1:]}
    shared = {
        name: "".join(values)
        for name, values in texts.items()
        if not values
        or (len(values) < 2 and len(rows) > 1 and len("".join(values)) > LONG)
    }
    remaining = [{k: v for k, v in row.items() if k not in shared} for row in rows]
    sentence = "; ".join(f"{name}: {text}" for name, text in shared.items() if text)
    return remaining, f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""


def render(rows: Sequence[Row]) -> str:
    """The table as text; long cells that all rows share stand below it."""
    if not rows:
        return "Not measured yet."
    rows, shared = without_shared(rows)
    return f"{aligned(rows)}\n\n{shared}".rstrip()
