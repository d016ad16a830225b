"""Rows that an experiment keeps, one per line, so that a kill loses none of them."""

import json
import pathlib
from typing import Any

from fedsvp_jax.run.folder import RunFolder

Row = dict[str, Any]


def read(file: pathlib.Path) -> list[Row]:
    """The rows; none if the file is not there. An unfinished last line is no row."""
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def add(file: pathlib.Path, row: Row) -> None:
    """Adds a row, in place of an unfinished line; it is on the disk then.

    Raises:
      WriteError: it cannot be written; the rows before it are kept.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(file.parent)
    folder.drop_torn_line(file.name)
    folder.append(file.name, [row])
