"""A CSV file as columns of text: as it was written, or refused in one sentence."""

import codecs
import collections
import csv
import io
import re
import warnings
from pathlib import Path

import numpy as np
from numpy.dtypes import StringDType

from fedsvp_jax.data.tables import files

_CELLS = 2**18  # cells of rows in Python's objects at a time
_DIVIDERS = ",;\t|"
_QUOTED = re.compile('"[^"]*"')
_SHOWN = 5  # faults of which an error tells
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WORKBOOKS = (b"PK", b"\xd0\xcf")  # .xlsx and .ods, .xls
ENCODINGS = ("utf-8", "cp1252")  # that a schema may state


def read_csv(path: Path, encoding: str | None = "utf-8") -> dict[str, np.ndarray]:
    """Every column as (rows,) text, without blanks around the values.

    The header names the columns; a comma, a semicolon, a tab or a bar divides them,
    whichever the header has most of outside quotes. A first line `sep=;`, as Excel
    writes it, says it too. Empty lines are left out.

    Args:
      path: of the file.
      encoding: of ENCODINGS, where it was stated without the records; a file with the
        mark of UTF-16 is read as that. None: as `encoding_of` guesses.

    Raises:
      OSError: it cannot be read.
      ValueError: it is no such file; all lines that are wrong are named at once.
    """
    line = 1
    try:
        encoding = encoding_of(path, encoding)
        codec = "utf-8-sig" if encoding == "utf-8" else encoding
        with path.open(newline="", encoding=codec) as handle:
            divider = _divider(handle)
            reader = csv.reader(handle, delimiter=divider, strict=True)
            names = [name.strip() for name in next(reader, [])]
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
            f"{path} is neither UTF-8 nor Windows-1252; save the file as UTF-8"
        ) from error
    except csv.Error as error:
        raise ValueError(
            f"{path} cannot be read after line {line} ({error}); it must be a CSV "
            "file, with quotes that are closed"
        ) from error
    faults = _header_faults(names)
    if wrong:
        note = f"; {len(wrong) - 1} more lines have another number, too"
        faults.append(
            f"line {wrong[0][0]}, has {wrong[0][1]} values; the header names "
            f"{len(names)} in line 1{note if len(wrong) > 1 else ''} (a {divider!r} "
            "inside a cell needs quotes around the cell)"
        )
    if faults:
        note = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
        raise ValueError(f"{path}, {'; '.join(faults[:_SHOWN])}{note}")
    table = np.concatenate([*blocks, _texts(rows, len(names))])
    return {name: table[:, place] for place, name in enumerate(names)}


def encoding_of(path: Path, stated: str | None = None) -> str:
    """utf-16 by its mark, or what is stated; else utf-8, or cp1252 with a warning.

    One byte of one record decides that guess, and it changes how all others are read.
    No line is therefore read otherwise than stated.

    Raises:
      OSError: it cannot be read.
      ValueError: it is no text, or a line of it is not in the stated encoding.
    """
    with path.open("rb") as handle:
        first = handle.read(2)
        if first in _UTF16:
            return "utf-16"
        if first in _WORKBOOKS:
            raise ValueError(
                f"{path} is a workbook or an archive, not a CSV file; open it in the "
                "program that wrote it, and export the sheet as CSV (UTF-8)"
            )
        handle.seek(0)
        for number, line in enumerate(handle, start=1):
            if b"\0" in line:
                raise ValueError(f"{path} holds NUL bytes: it is no text file")
            try:
                line.decode(stated or "utf-8")
            except UnicodeDecodeError as error:
                if stated is None:
                    break
                number += line.count(b"\r", 0, error.start)
                raise ValueError(
                    f"{path}, line {number}, has the byte 0x{line[error.start]:02x}, "
                    f"which is not {stated}; save the file as UTF-8, or state "
                    'encoding = "cp1252" in its schema'
                ) from error
        else:
            return stated or "utf-8"
    warnings.warn(
        f"{path} is not UTF-8; it is read as Windows-1252 (Latin-1)", stacklevel=3
    )
    return "cp1252"


def _divider(handle: io.TextIOBase) -> str:
    """The mark that divides the columns; the file then stands at its header."""
    first = handle.readline()
    declared = first.strip().strip('"').lower()
    if declared.startswith("sep=") and len(declared) == 5:
        return declared[-1]
    handle.seek(0)
    return max(_DIVIDERS, key=_QUOTED.sub("", first).count)


def _texts(rows: list[list[str]], width: int) -> np.ndarray:
    """(rows, width): short texts in 16 bytes each, and long ones beside them."""
    return np.strings.strip(np.array(rows, StringDType()).reshape(-1, width))


def _header_faults(names: list[str]) -> list[str]:
    """The faults of the header."""
    if not names:
        return ["line 1, is empty; the first line must name the columns"]
    faults = [
        f"line 1: column {place} has no name; name it, or leave it out (pandas writes "
        "such a column for its index)"
        for place, name in enumerate(names, start=1)
        if not name
    ]
    faults += [
        f"line 1: {count} columns have the name {files.quoted(name)}; rename all but "
        "one"
        for name, count in collections.Counter(filter(None, names)).items()
        if count > 1
    ]
    try:
        files.check_printable(names, "line 1: the header")
    except ValueError as error:
        faults.append(str(error))
    return faults
