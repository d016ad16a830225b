"""A CSV file as columns of text: as it was written, or refused in one sentence."""

import collections
import csv
from pathlib import Path

import numpy as np
from numpy.dtypes import StringDType

from fedsvp_jax.data.formats import files

_CELLS = 2**18  # cells of rows in Python's objects at a time


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """Every column as (rows,) text, without blanks around the values.

    The header names the columns; a comma, a semicolon or a tab divides them, whichever
    the header has most of. Empty lines are left out.

    Raises:
      OSError: it cannot be read.
      ValueError: it is no such file.
    """
    line = 1
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            divider = max(",;\t", key=handle.readline().count)
            handle.seek(0)
            reader = csv.reader(handle, delimiter=divider, strict=True)
            names = [name.strip() for name in next(reader, [])]
            _check_names(names, path)
            blocks, rows, wrong = [], [], []
            for row in reader:
                line = reader.line_num
                if len(row) == len(names):
                    rows.append(row)
                elif row:
                    wrong.append((line, len(row)))
                if len(rows) * len(names) >= _CELLS:
                    blocks.append(_texts(rows, len(names)))
                    rows = []
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {_undecodable(path)}, is not UTF-8 (perhaps Latin-1 or "
            "UTF-16); save the file as UTF-8"
        ) from error
    except csv.Error as error:
        raise ValueError(
            f"{path} cannot be read after line {line} ({error}); it must be a CSV "
            "file, with quotes that are closed"
        ) from error
    if wrong:
        more = f"; so have {len(wrong) - 1} more lines" if len(wrong) > 1 else ""
        raise ValueError(
            f"{path}, line {wrong[0][0]}, has {wrong[0][1]} values; the header names "
            f"{len(names)}{more.replace('so have', 'another number have')}"
        )
    table = np.concatenate([*blocks, _texts(rows, len(names))])
    return {name: table[:, place] for place, name in enumerate(names)}


def _texts(rows: list[list[str]], width: int) -> np.ndarray:
    """(rows, width): short texts in 16 bytes each, and long ones beside them."""
    return np.strings.strip(np.array(rows, StringDType()).reshape(-1, width))


def _check_names(names: list[str], path: Path) -> None:
    if not names:
        raise ValueError(f"{path} is empty; its first line must name the columns")
    if "" in names:
        raise ValueError(
            f"{path}: column {names.index('') + 1} has no name; name it, or leave it "
            "out (pandas writes such a column for its index)"
        )
    (name, count), *_ = collections.Counter(names).most_common(1)
    if count > 1:
        raise ValueError(f"{path} has two columns of the name {files.shown(name)}")
    files.check_printable(names, f"{path}: the header")


def _undecodable(path: Path) -> int:
    """The first line that is not UTF-8, from 1."""
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1
