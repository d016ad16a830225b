"""The sentences in front of a run: which ε, against whom, and what the model is worth.

They are made from summary.json and config.json alone.
"""

from pathlib import Path
from typing import Any

from fedsvp_jax.core.files import Record, read_json

from . import guarantees, page, text_table

REFERENCE = "reference.json"  # scores without privacy, in a run's folder


def filled(macro: str, *values: Any) -> str:
    """The sentences of a macro of templates/sentences.txt, in one line."""
    macros = page.templates().get_template("sentences.txt").module
    return " ".join(getattr(macros, macro)(*values).split())


def cells(macro: str, *values: Any) -> text_table.Table:
    """The rows of a table that a macro of templates/cells.txt makes."""
    rows: text_table.Table = []
    getattr(page.templates().get_template("cells.txt").module, macro)(rows, *values)
    return rows


def sentences(folder: Path, summary: Record) -> dict[str, str]:
    """All sentences of a run's folder, by their macros; "" where there is none."""
    config, claim = content(folder / "config.json"), guarantees.main(summary)
    releases = guarantees.beside(folder, config) if claim else []
    reference = content(folder / REFERENCE)
    (texts,) = cells("sentences", summary, config, reference, claim, releases)
    return {macro: " ".join(text.split()) for macro, text in texts.items()}


def content(path: Path) -> Record:
    """The object in a JSON file; {} where there is none."""
    return read_json(path) if path.is_file() else {}
