"""Prints and writes tables: of a sweep, and of records by a template."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedsvp_jax.report import headline, read, tables, text_table

from . import messages


def filled_rows(
    template: str, records: Iterable[Mapping[str, Any]], **values: Any
) -> text_table.Table:
    """Rows of a table: the template has a line `column = cell` for each column.

    It is filled with every record, as `row`, and with the values.
    """
    texts = (messages.filled(template, row=record, **values) for record in records)
    return [dict(line.split(" = ", 1) for line in text.splitlines()) for text in texts]


def sweep_tables(folder: str | Path) -> None:
    """Writes table.md and table.csv of a sweep's folder, and prints the table."""
    sweep = read.read_sweep(folder)
    rows = tables.summarize(sweep.results, sweep.cells)
    tables.write_tables(Path(folder), rows)
    print(text_table.render(tables.shown_cells(rows)))
    if share := sweep.cells[0].get("guessing"):
        print(tables.beside_guessing(rows, share))
    if note := headline.unprotected(sweep.config):
        print(note)
