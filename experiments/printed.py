"""Prints and writes tables: of a sweep, and of records by a template."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedsvp_jax.core.files import Record, replace_file
from fedsvp_jax.report import headline, read, tables, text_table

from . import messages


def filled_rows(
    template: str, records: Iterable[Record], **values: Any
) -> text_table.Table:
    """Rows of a table: the template has a line `column = cell` for each column.

    It is filled with every record, as `row`, and with the values.
    """
    texts = (messages.filled(template, row=record, **values) for record in records)
    return [dict(line.split(" = ", 1) for line in text.splitlines()) for text in texts]


def print_rows(template: str, records: Iterable[Record], **values: Any) -> None:
    """Prints `filled_rows`."""
    print(text_table.render(filled_rows(template, records, **values)))


def sweep_tables(folder: str | Path) -> None:
    """Writes table.md, table.tex and table.csv of a sweep's folder, and prints it."""
    sweep = read.read_sweep(folder)
    rows = tables.summarize(sweep.results, sweep.cells)
    place = Path(folder)
    table = tables.shown_cells(rows, sweep.config)
    share = sweep.cells[0].get("guessing") if sweep.cells else None
    sentences = (
        headline.filled("unfinished", sweep.config, tables.how_far(sweep)),
        headline.filled("unlike", table),
        tables.beside_guessing(rows, share) if share else "",
        headline.unprotected(sweep.config),
    )
    notes = [*filter(None, sentences)]
    tables.write_csv(place / "table.csv", rows)
    for name in ("table.md", "table.tex"):
        text = messages.filled(name, rows=table, notes=notes)
        replace_file(place / name, text.encode())
    print(text_table.render(table), *notes, sep="\n")
