"""Writes and prints the tables of a sweep."""

from pathlib import Path

from fedsvp_jax.report import headline, read, tables, text_table


def sweep_tables(folder: str | Path) -> None:
    """Writes table.md and table.csv of a sweep's folder, and prints the table."""
    tables.write_tables(folder)
    sweep = read.read_sweep(folder)
    print(
        text_table.render(
            tables.shown_cells(tables.summarize(sweep.results, sweep.cells))
        )
    )
    if note := headline.unprotected(sweep.config):
        print(note)
