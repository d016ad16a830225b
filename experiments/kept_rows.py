"""Rows that an experiment keeps, one per line, so that a kill loses none of them."""

import json
import pathlib
from typing import Any

from fedsvp_jax.run.files import replace_file
from fedsvp_jax.run.folder import RunFolder

Row = dict[str, Any]


def _whole_lines(file: pathlib.Path) -> bytes:
    content = file.read_bytes() if file.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def read(file: pathlib.Path) -> list[Row]:
    """The rows; none if the file is not there. An unfinished last line is no row."""
    return [json.loads(line) for line in _whole_lines(file).splitlines()]


def add(file: pathlib.Path, row: Row) -> None:
    """Adds a row, in place of an unfinished line; it is on the disk then.

    Raises:
      WriteError: it cannot be written; the rows before it are kept.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    whole = _whole_lines(file)
    if file.exists() and file.stat().st_size > len(whole):
        replace_file(file, whole)
    RunFolder(file.parent).append(file.name, [row])
