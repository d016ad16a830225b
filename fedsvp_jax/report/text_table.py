"""Tables as text, for a terminal.

A table is a list of rows, and a row is what it shows by column: `{"ε": "0.2", …}`. All
rows of a table have the same columns in the same order.
"""

import io
import shutil
import textwrap
from collections.abc import Mapping, Sequence

from fedsvp_jax.core.files import printable

LONG = 24  # characters of a cell that make a table hard to read
_WIDTH = 100  # characters of a line where no terminal says its own
_GAP = 3  # characters between columns

Row = Mapping[str, str]
Table = list[dict[str, str]]  # rows of texts by column


def _terminal() -> int:
    """The terminal's width; 0 where there is none."""
    return shutil.get_terminal_size((0, 0)).columns


def aligned(rows: Sequence[Row]) -> str:
    """Columns of equal width, without Markdown's marks: the first flush left.

    Text is broken into lines where the table would be wider than the terminal, or than
    100 characters where none says its width: between words, but not in numbers. A
    terminal that is too narrow for this breaks words too.
    """
    from rich import box, console, table, text

    grid = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    head = [*rows[0]]
    body = [[printable(cell.strip("*`")) for cell in row.values()] for row in rows]
    needed = 0
    for cells in zip(head, *body, strict=True):
        narrowest = max(map(_unbroken, cells))
        needed += narrowest + _GAP
        grid.add_column(
            text.Text(cells[0]),
            justify="right" if grid.columns else "left",
            min_width=None if _terminal() else narrowest,
            overflow="fold",
        )
    for row in body:
        grid.add_row(*map(text.Text, row))
    file = io.StringIO()
    width = _terminal() or max(_WIDTH, needed)
    console.Console(file=file, width=width).print(grid)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _unbroken(cell: str) -> int:
    """The length of the longest part of a cell that stays in one line."""
    is_number = cell[:1].isdigit() and len(cell) <= LONG
    return max(map(len, [cell] if is_number else cell.split()), default=1)


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
    notes = [f"{sentence[0].upper()}{sentence[1:]}."] if sentence else []
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
    width = _terminal() or _WIDTH
    lines = [textwrap.fill(note, width, subsequent_indent="    ") for note in notes]
    return "\n".join([aligned(rows), "", *lines]).rstrip()
