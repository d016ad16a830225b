"""A CSV file as columns of text: as it was written, or refused in one sentence."""

import codecs
import collections
import csv
import io
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from fedsvp_jax.data.tables import cells, files, literals
from fedsvp_jax.data.tables.cells import Columns
from fedsvp_jax.data.tables.literals import ENCODINGS

_BLOCK = 2**23  # bytes that are read at a time
_BLOCKS = (_BLOCK, 2**27, 2**31 - 1)  # of a file with longer and longer records
_OF_COLUMN = 2**12  # bytes of a block for each column, at least
_DIVIDERS = ",;\t|"
_DECLARED = re.compile(r'"?sep=(\\t|[\t -!#-~])"?[ \t]*\r?\n?', re.I)
_QUOTED = re.compile('"[^"]*"')
_SHOWN = 5  # faults of which an error tells
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_WORKBOOKS = (b"PK", b"\xd0\xcf")  # .xlsx and .ods, .xls


class Form(NamedTuple):
    """How a CSV file is written."""

    codec: str
    divider: str
    names: tuple[str, ...]  # of the columns
    start: int  # bytes before the first record
    line: int  # of the first record

    @property
    def encoding(self) -> str:
        """What a schema states of it, of `ENCODINGS`."""
        return self.codec if self.codec in ENCODINGS else ENCODINGS[0]


def form_of(path: Path, encoding: str | None = "utf-8") -> Form:
    """How the file is written; its header alone decides what divides the columns.

    The header names the columns; a comma, a semicolon, a tab or a bar divides them,
    whichever it has most of outside quotes. A first line `sep=;`, as Excel writes it,
    says it too.

    Args:
      path: of the file.
      encoding: of ENCODINGS, where it was stated without the records; a file with the
        mark of UTF-8 or UTF-16 is read as that. None: UTF-8, or else cp1252 with a
        warning. One byte of one record decides that guess, and it changes how all
        others are read.

    Raises:
      OSError: it cannot be read.
      ValueError: it is no text, a line of it is not in the encoding or has a quote that
        ends no cell, or its header is wrong.
    """
    with path.open("rb") as handle:
        first = handle.read(3)
    if first.startswith(_WORKBOOKS):
        raise ValueError(
            f"{path} is a workbook or an archive, not a CSV file; give it the ending "
            ".xlsx if it is one, or export the sheet as CSV (UTF-8)"
        )
    mark = next((mark for mark in _MARKS if first.startswith(mark)), b"")
    start, stated = len(mark), _MARKS.get(mark, encoding)
    codec, has_quotes = _codec(path, (stated,) if stated else ENCODINGS, start)
    with path.open("rb") as handle:
        handle.seek(start)
        lines = io.TextIOWrapper(handle, encoding=codec, newline="")
        before, header = "", lines.readline()
        declared = _DECLARED.fullmatch(header)
        if declared:
            before, header = header, lines.readline()
        while header.count('"') % 2 and (next_line := lines.readline()):
            header += next_line
    if declared:
        divider = "\t" if declared[1] == "\\t" else declared[1]
    else:
        divider = max(_DIVIDERS, key=_QUOTED.sub("", header).count)
    if has_quotes:
        _check_quotes(path, codec, start, divider)
    written = next(csv.reader(io.StringIO(header, newline=""), delimiter=divider), [])
    names = tuple(re.sub(r"\s+", " ", literals.normal(name)) for name in written)
    start += len((before + header).encode(codec))
    line = 1 + len((before + header).splitlines())
    return Form(codec, divider, names, start, line)


def _codec(path: Path, tried: Sequence[str], start: int) -> tuple[str, bool]:
    """The first codec that all of the text is in, and whether it has quotes."""
    for codec in tried:
        try:
            has_quotes = sum(b'"' in block for block in _blocks(path, codec, start))
        except UnicodeDecodeError as error:
            fault = error
            continue
        if codec != tried[0]:
            warnings.warn(
                f"{path} is not UTF-8; it is read as Windows-1252 (Latin-1)",
                stacklevel=3,
            )
        return codec, has_quotes > 0
    raise ValueError(
        f"{path}, line {fault.reason}, has the byte "
        f"0x{fault.object[fault.start]:02x}, which is not {' or '.join(tried)}; save "
        'the file as UTF-8, or state encoding = "cp1252" in its schema'
    )


def _blocks(path: Path, codec: str, start: int) -> Iterator[bytes]:
    """The text in UTF-8, a block at a time.

    Raises:
      UnicodeDecodeError: it is in another codec; the `reason` is the line.
      ValueError: it holds NUL.
    """
    decoder, line = codecs.getincrementaldecoder(codec)(), 1
    with path.open("rb") as handle:
        handle.seek(start)
        for block in iter(lambda: handle.read(_BLOCK), None):
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                line += _line_ends(error.object[: error.start])
                error.reason = str(line)
                raise
            written = block if codec == "utf-8" else text.encode()
            if b"\0" in written:
                raise ValueError(f"{path} holds NUL bytes: it is no text file")
            line += _line_ends(block)
            yield written
            if not block:
                break


def _line_ends(written: bytes) -> int:
    return written.count(b"\n") or written.count(b"\r")


def _check_quotes(path: Path, codec: str, start: int, divider: str) -> None:
    """Raises ValueError: a quote that opens or closes no whole cell, or stays open.

    Quotes open and close in turn, those inside a cell being doubled. What opens stands
    behind a divider, a line's end or a quote; what closes, before one.
    """
    beside = np.zeros(256, bool)
    beside[list(b'"\n\r' + divider.encode())] = True
    quotes, line, carried, opened = 0, 1, b"\n", 1
    for block in itertools.chain(_blocks(path, codec, start), [b"\n"]):
        written = np.frombuffer(carried + block, np.uint8)
        places = np.flatnonzero(written[1:-1] == ord('"')) + 1
        closes = (quotes + np.arange(len(places))) % 2 == 1
        stray = places[~beside[written[places + np.where(closes, 1, -1)]]]
        text = written.tobytes()
        if len(stray):
            line += _line_ends(text[1 : stray[0]])
            raise ValueError(
                f"{path}, line {line}, has a quote inside a cell; put quotes around "
                "the whole cell, and double those inside it"
            )
        if len(places) and (quotes + len(places)) % 2:
            opened = line + _line_ends(text[1 : places[-1]])
        quotes += len(places)
        line += _line_ends(text[1:-1])
        carried = text[-2:]
    if quotes % 2:
        raise ValueError(
            f"{path}, line {opened}, opens a quote that no later line closes; close "
            "it, or double it if it belongs to the cell"
        )


def read_columns(path: Path, form: Form) -> Columns:
    """Every column as (rows,) text, normalised; empty lines are left out.

    Raises:
      OSError: it cannot be read.
      ValueError: the header or a line of it is wrong; all are named at once.
    """
    faults, names = _header_faults(form.names), list(map(str, range(len(form.names))))
    wrong: list[pyarrow.csv.InvalidRow] = []
    table = None

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        wrong.append(row)
        return "skip"

    for size in _BLOCKS:
        wrong.clear()
        try:
            with path.open("rb") as handle:
                handle.seek(form.start)
                table = pyarrow.csv.read_csv(
                    handle,
                    pyarrow.csv.ReadOptions(
                        use_threads=False,
                        block_size=min(max(size, _OF_COLUMN * len(names)), _BLOCKS[-1]),
                        column_names=names,
                        encoding=form.codec,
                    ),
                    pyarrow.csv.ParseOptions(
                        delimiter=form.divider,
                        newlines_in_values=True,
                        invalid_row_handler=skip,
                    ),
                    pyarrow.csv.ConvertOptions(
                        check_utf8=False,
                        column_types=dict.fromkeys(names, pa.string()),
                        strings_can_be_null=False,
                    ),
                )
            break
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                break
            if "straddling" not in str(error) or size == _BLOCKS[-1]:
                raise ValueError(f"{path} cannot be read ({error})") from error
    if wrong:
        faults.append(_short_line(path, form, len(wrong)))
    if faults:
        note = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
        raise ValueError(f"{path}, {'; '.join(faults[:_SHOWN])}{note}")
    if table is None:
        empty = pa.chunked_array([], pa.string())
        return Columns(dict.fromkeys(form.names, empty))
    columns = Columns(zip(form.names, table.columns, strict=True))
    del table
    for name, column in columns.items():  # one after the other: the memory of one more
        text = cells.normal_texts(column)
        compact = text.nbytes < 2**31 - 1  # which one array may hold
        columns[name] = pa.chunked_array([text.combine_chunks()]) if compact else text
        cells.release(len(text))
    return columns


def _short_line(path: Path, form: Form, count: int) -> str:
    """Names the first line of another number of values than the header has."""
    csv.field_size_limit(2**31 - 1)
    with path.open("rb") as handle:
        handle.seek(form.start)
        lines = io.TextIOWrapper(handle, encoding=form.codec, newline="")
        reader, line = csv.reader(lines, delimiter=form.divider), form.line
        for row in reader:
            if row and len(row) != len(form.names):
                break
            line = form.line + reader.line_num
    note = f"; {count - 1} more lines have another number, too" if count > 1 else ""
    return (
        f"line {line}, has {len(row)} values; the header names {len(form.names)} in "
        f"line 1{note} (a {form.divider!r} inside a cell needs quotes around the cell)"
    )


def _header_faults(names: Sequence[str]) -> list[str]:
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
