"""Tables as text, for a terminal.

A table is a list of rows, and a row is what it shows by column: `{"ε": "0.2", …}`. All
rows of a table have the same columns in the same order.
"""

import itertools
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from fedsvp_jax.core.files import printable

LONG = 24  # characters of a cell that make a table hard to read
_WIDTH = 100  # characters of a line where no terminal says its own
_GAP = "   "  # between columns

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
    head = [*rows[0]]
    body = [[printable(cell.strip("*`")) for cell in row.values()] for row in rows]
    widths = _widths([*zip(head, *body, strict=True)])

    def lines(cells: Sequence[str]) -> Iterator[str]:
        wrapped = [
            textwrap.wrap(cell, width, break_on_hyphens=False)
            for cell, width in zip(cells, widths, strict=True)
        ]
        for first, *numbers in itertools.zip_longest(*wrapped, fillvalue=""):
            right = map(str.rjust, numbers, widths[1:])
            yield _GAP.join([first.ljust(widths[0]), *right]).rstrip()

    rule = "─" * len(_GAP.join("─" * width for width in widths))
    return "\n".join([*lines(head), rule, *itertools.chain(*map(lines, body))])


def _widths(columns: Sequence[Sequence[str]]) -> list[int]:
    """The columns' widths: the widest are narrowed until a line fits, if it can."""
    room = (_terminal() or _WIDTH) - len(_GAP) * (len(columns) - 1)
    whole_lines = [max(map(len, cells)) for cells in columns]
    narrowest = [max(map(_unbroken, cells)) for cells in columns]
    if _terminal() and sum(narrowest) > room:
        narrowest = [1] * len(columns)
    widths, limit = whole_lines, max(whole_lines)
    while sum(widths) > room and limit:
        pairs = zip(whole_lines, narrowest, strict=True)
        widths = [min(width, max(limit, floor)) for width, floor in pairs]
        limit -= 1
    return widths


def _unbroken(cell: str) -> int:
    """The length of the longest part of a cell that stays in one line."""
    is_number = cell[:1].isdigit() and len(cell) <= LONG
    return max(map(len, [cell] if is_number else cell.split()), default=1)


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


def factored(rows: Sequence[Row]) -> tuple[Sequence[Row], list[str]]:
    """The rows with numbers in place of long cells that repeat, and notes of these."""
    rows, shared = without_shared(rows)
    notes: dict[tuple[str, str], str] = {}
    for name in [*rows[0]][1:]:
        texts = [row[name] for row in rows]
        if len({*texts}) < max(2, len(texts)):
            for text in filter(lambda text: len(text) > LONG, texts):
                notes.setdefault((name, text), f"[{len(notes) + 1}]")
    numbered = [
        {name: notes.get((name, text), text) for name, text in row.items()}
        for row in rows
    ]
    lines = [f"{mark} {name}: {text}." for (name, text), mark in notes.items()]
    return numbered, [*filter(None, [shared]), *lines]


def render(rows: Sequence[Row]) -> str:
    """The table as text; long cells that repeat stand below it, once."""
    if not rows:
        return "Not measured yet."
    rows, notes = factored(rows)
    width = _terminal() or _WIDTH
    lines = [textwrap.fill(note, width, subsequent_indent="    ") for note in notes]
    return "\n".join([aligned(rows), "", *lines]).rstrip()
