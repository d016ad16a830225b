"""A CSV file as columns of text: as it was written, or refused in one sentence."""

import codecs
import collections
import csv
import gzip
import re
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from . import cells, files, literals

_BLOCK = 2**22  # bytes that are read at once, which a record may have
_DIVIDERS = ",;\t|"
_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# .xlsx and .ods, .xls, .parquet, .sav, .dta, .xpt
_OTHERS = (b"PK", b"\xd0\xcf", b"PAR1", b"$FL", b"<stata_dta", b"HEADER RECORD")
_NUMBER = re.compile(r"[+-]?[0-9]*[.,]?[0-9]+")
_BEYOND_ASCII = re.compile(rb"([\xc2-\xf4][\x80-\xbf]+)|[\x80-\xff]")  # UTF-8, or not
_MIXED = "utf-8, as other lines are: the file mixes encodings"
_OF_WINDOWS = ', or state encoding = "cp1252" in its schema before a training'


class Form(NamedTuple):
    """How a CSV file is written."""

    encoding: str  # of `ENCODINGS`, which a schema states
    divider: str


def read(path: Path, encoding: str | None = "utf-8") -> tuple[cells.Columns, Form]:
    """Every column as (rows,) text, normalised, and how the file is written.

    The header names the columns; a comma, a semicolon, a tab or a bar divides them,
    whichever it has most of outside quotes. A first line `sep=;`, as Excel writes it,
    says it too. What gzip packed is unpacked. Empty lines are left out. The name of a
    first column may be "", if all its values differ: row names, as R's write.csv and
    pandas' to_csv write them.

    Args:
      path: of the file.
      encoding: of ENCODINGS, where it was stated without the records; a file with the
        mark of UTF-8 or UTF-16 is read as that. None: UTF-8, or else cp1252 with a
        warning, unless much of it is UTF-8. One byte of one record decides that guess,
        and it changes how all others are read.

    Raises:
      OSError: it cannot be read.
      ValueError: it is no text, a line of it is not in the encoding or has a quote that
        ends no cell, or its header or a line of it is wrong.
    """
    raw = path.read_bytes()
    if raw.startswith(b"\x1f\x8b"):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is damaged: gzip cannot unpack it") from error
    if raw.startswith(_OTHERS):
        raise ValueError(
            f"{path} is a workbook, an archive or a file of a statistics program, not "
            "a CSV file; give it the ending of its format (.xlsx, .parquet, .sav, "
            ".dta, .xpt), or export it as CSV (UTF-8)"
        )
    marked = [codec for mark, codec in _MARKS.items() if raw.startswith(mark)]
    raw, codec = _in_utf8(
        raw, marked or ([encoding] if encoding else literals.ENCODINGS), path
    )
    if b"\0" in raw:
        raise ValueError(f"{path} holds NUL bytes: it is no text file")
    start = 0
    if declared := re.match(rb'"?sep=(\\t|[\t -!#-~])"?[ \t]*(?:\r\n?|\n)', raw, re.I):
        divider = declared[1].decode().replace("\\t", "\t")
        start = declared.end()
    else:
        line = next(re.finditer(rb'\A(?:[^"\r\n]+|"[^"]*")*', raw))[0]
        header = re.sub(b'"[^"]*"', b"", line).decode()
        divider = max(_DIVIDERS, key=header.count)
        if divider not in header:  # of a title: the lines below have another number
            divider = max(_DIVIDERS, key=raw.decode().count)
    # A cell in quotes stands between dividers or ends of lines, its own are doubled.
    beside = rf"[^\r\n{re.escape(divider)}]"
    cell = rf'"(?:(?<!{beside}")[^"]*+(?:""[^"]*+)*+"(?!{beside}))?'
    for quote in re.finditer(cell.encode(), raw):
        if quote[0] == b'"':
            raise ValueError(
                f"{path}, line {_line(raw[: quote.start()])}, has a quote inside a "
                "cell; put quotes around the whole cell, and double those inside it "
                "(or it opens a quote that no later line closes)"
            )
    names, columns = _columns(raw, start, divider, path)
    del raw  # before the columns are normalised
    table = cells.Columns()
    while columns:
        table[names[len(table)]] = cells.normal_texts(columns.pop(0))
    again = np.all([pc.equal(table[name], name) for name in names], axis=0)
    if again.any():
        raise ValueError(
            f"{path} has its header again {cells.place(table[names[0]], again)}: leave "
            "such lines out"
        )
    return table, Form(
        codec if codec in literals.ENCODINGS else literals.ENCODINGS[0], divider
    )


def _in_utf8(raw: bytes, codecs_: Sequence[str], path: Path) -> tuple[bytes, str]:
    """The text in UTF-8, and the first of the codecs that it is in."""
    for codec in codecs_:
        try:
            text = raw.decode(codec)
        except UnicodeDecodeError as error:
            fault = error
            if 0.2 < np.mean([*map(bool, _BEYOND_ASCII.findall(raw))]) < 1:
                codecs_ = [_MIXED]
                break
            continue
        if codec != codecs_[0]:
            warnings.warn(
                f"{path} is not UTF-8; it is read as Windows-1252 (Latin-1)",
                stacklevel=4,
            )
        return raw if codec == literals.ENCODINGS[0] else text.encode(), codec
    raise ValueError(
        f"{path}, line {_line(raw[: fault.start])}, has the byte "
        f"0x{raw[fault.start]:02x}, which is not {' or '.join(codecs_)}; save the file "
        "with a byte order mark (BOM) as UTF-8"
        f"{_OF_WINDOWS * (not {'cp1252', _MIXED} & {*codecs_})}"
    )


def _line(before: bytes) -> int:
    """The number of the line that begins behind this text, or goes on there."""
    return 1 + (before.count(b"\n") or before.count(b"\r"))


def _columns(
    text: bytes, start: int, divider: str, path: Path
) -> tuple[list[str], list[cells.Cells]]:
    """Names and columns of a file; all faults of its header and its lines are named."""
    csv.field_size_limit(2**31 - 1)
    lines = (line[0].decode() for line in _LINE.finditer(text, start))
    reader = csv.reader(lines, delimiter=divider)
    names = [re.sub(r"\s+", " ", literals.normal(name)) for name in next(reader, [])]
    faults, numbers = _header_faults(names), [*map(str, range(len(names)))]
    columns: list[cells.Cells] = []
    try:
        columns = pyarrow.csv.read_csv(
            pa.BufferReader(pa.py_buffer(text)[start:]),
            pyarrow.csv.ReadOptions(
                use_threads=False,  # each would need blocks of its own
                block_size=_BLOCK,
                column_names=numbers,
                skip_rows_after_names=1,
            ),
            pyarrow.csv.ParseOptions(delimiter=divider, newlines_in_values=True),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(numbers, pa.string()),
                strings_can_be_null=False,
            ),
        ).columns
    except pa.ArrowInvalid as error:
        wrong = []
        for row in reader:
            line, size = f"line {reader.line_num}, has", sum(map(len, row))
            if size > _BLOCK / 2 and "straddling" in str(error):
                faults.append(
                    f"{line} {size / 1e6:.1f} million characters, more than "
                    f"{_BLOCK >> 20} MB may have; shorten it, or leave its longest "
                    "column out of the file"
                )
            elif row and len(row) != len(names):
                wrong.append(f"{line} {len(row)} values")
        note = f"; {len(wrong) - 1} more lines have another number, too"
        cut = ": is the file cut off in its last line?"
        faults += wrong and [
            f"{wrong[0]}; the header names {len(names)} in line 1"
            f"{note if wrong[1:] else cut * (0 < len(row) < len(names))} "
            f"(delete lines above the header; a {divider!r} inside a cell needs quotes "
            "around the cell)"
        ]
        faults = faults or [f"cannot be read ({error})"]
    if (
        columns
        and names
        and not names[0]
        and cells.num_distinct(columns[0]) < len(columns[0])
    ):
        faults = [files.unnamed([1]), *faults]
    files.refuse(faults, f"{path}, ")
    return names, columns


def _header_faults(names: Sequence[str]) -> list[str]:
    """The faults of the header."""
    if not names:
        return ["line 1, is empty; the first line must name the columns"]
    if not all(map(str.isdigit, names)) and all(map(_NUMBER.fullmatch, names)):
        return ["line 1, holds numbers alone; the first line must name the columns"]
    nameless = [place for place, name in enumerate(names[1:], start=2) if not name]
    faults = [files.unnamed(nameless)] * any(nameless) + [
        f"line 1: {count} columns have the name {files.quoted(name)}; rename all but "
        "one"
        for name, count in collections.Counter(filter(None, names)).items()
        if count > 1
    ]
    with files.collected(faults):
        files.check_printable(names, "line 1: the header")
    return faults
