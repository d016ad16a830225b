"""Tables as text, for a terminal.

A table is a list of rows, and a row is what it shows by column: `{"ε": "0.2", …}`. All
rows of a table have the same columns in the same order.
"""

import functools
import io
import shutil
import textwrap
from collections.abc import Mapping, Sequence

from fedsvp_jax.core.files import printable

LONG = 24  # characters of a cell that make a table hard to read
_WIDTH, _WIDEST = 100, 1000  # of a note, of a table, where no terminal says its own
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
    for name in rows[0]:
        grid.add_column(
            text.Text(name if width else _broken(name)),
            justify="right" if grid.columns else "left",
            overflow="fold",
        )
    for row in rows:
        cells = (printable(cell.strip("*`")) for cell in row.values())
        grid.add_row(*(text.Text(cell if width else _broken(cell)) for cell in cells))
    file = io.StringIO()
    console.Console(file=file, width=width or _WIDEST).print(grid)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def factored(
    rows: Sequence[Row], *, numbered: bool = True
) -> tuple[Sequence[Row], list[str]]:
    """The rows without long cells that all of them share, and notes of these.

    A dash counts as equal to any other text of its column. Columns of dashes alone are
    left out too.

    Args:
      numbered: other long cells that repeat become numbers, with notes of their own.
    """
    shared: dict[str, str] = {}
    marks: dict[tuple[str, str], str] = {}
    for name in [*(rows or [{}])[0]][1:]:
        texts = [row[name] for row in rows]
        values = {*texts} - {"–"}
        joined = "".join(values)
        if not values or (len(values) == 1 < len(rows) and len(joined) > LONG):
            shared[name] = joined
        elif numbered and len({*texts}) < max(2, len(texts)):
            for text in filter(lambda text: len(text) > LONG, texts):
                marks.setdefault((name, text), f"[{len(marks) + 1}]")
    sentence = "; ".join(f"{name}: {text}" for name, text in shared.items() if text)
    notes = [f"{sentence}."] if sentence else []
    notes += [f"{mark} {name}: {text}." for (name, text), mark in marks.items()]
    remaining = [
        {k: marks.get((k, text), text) for k, text in row.items() if k not in shared}
        for row in rows
    ]
    return remaining, notes


def render(rows: Sequence[Row]) -> str:
    """The table as text; long cells that repeat stand below it, once."""
    if not rows:
        return "Not measured yet."
    rows, notes = factored(rows)
    width = shutil.get_terminal_size((_WIDTH, 0)).columns
    lines = [textwrap.fill(note, width, subsequent_indent="    ") for note in notes]
    return "\n".join([aligned(rows), "", *lines]).rstrip()
