"""Prints and writes tables: of a sweep, and of records by a template."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax.core.files import Record, replace_file
from fedsvp_jax.report import read, tables, text_table

from . import messages


def filled_rows(
    template: str, records: Iterable[Record], **values: Any
) -> text_table.Table:
    """Rows of a table: the template has a line `column = cell` for each column.

    It is filled with every record, as `row`, and with the values.
    """
    texts = (messages.filled(template, row=record, **values) for record in records)
    return [dict(line.split(" = ", 1) for line in text.splitlines()) for text in texts]


def print_rows(
    template: str, records: Sequence[Record], folder: Path, **values: Any
) -> None:
    """Prints `filled_rows`, and writes the records to table.csv of the folder."""
    print(text_table.render(filled_rows(template, records, **values)))
    replace_file(
        folder / "table.csv", messages.filled("table.csv", rows=records).encode()
    )


def sweep_tables(folder: str | Path) -> None:
    """Writes table.md, table.tex and table.csv of a sweep's folder, and prints it."""
    sweep = read.read_sweep(folder)
    rows = tables.summarize(sweep.results, sweep.cells)
    texts = {
        kind: messages.filled(f"table.{kind}", sweep=sweep, rows=rows)
        for kind in ("csv", "md", "tex", "txt")
    }
    print(texts.pop("txt"))
    for kind, text in texts.items():
        replace_file(Path(folder, f"table.{kind}"), text.encode())
