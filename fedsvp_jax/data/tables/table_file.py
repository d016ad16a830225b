"""A table from a file: CSV, Parquet, a workbook, or what SPSS, Stata and SAS write."""

import itertools
import os
import re
import zipfile
from pathlib import Path
from typing import Any

from fedsvp_jax.core import extras

from . import cells, csv_file, files, literals
from .cells import Columns
from .files import Unfit
from .schema import Schema, SchemaColumn

_STATISTICS = literals.WORDS["readers"]  # of pyreadstat
_EXPECTED = "; its ending must be that of its format: .csv, .parquet, .xlsx, .sav, .dta"
_SCALE = 10  # codes from 0 to 10, of which the first and the last alone have words
_COPIES = 2  # of a file, at the least, are in memory while it is read
_UNCOMPUTED = re.compile(  # a formula; the value of a text may be empty
    rb'<c (?:(?!t="str")[^>])*>\s*<f[^>]*>[^<]*</f>\s*(?:<v\s*/>|<v>\s*</v>|</c>)'
)
_HIDDEN = re.compile(  # 16384: all columns behind the table
    rb'<(?:row|col) (?![^>]*max="16384")[^>]*\bhidden="(?:1|true)"'
)
_LITERALS = re.compile(r'"[^"]*"|\\.')  # of a cell's form, which are only shown
_DIGITS = re.compile(  # forms that show 501 as 00501: of sheets, SPSS, SAS, and Stata
    r"(?P<zeros>00+)|(?:[NZ]|%0)(?P<width>[0-9]+)(?:\.0)?[fg]?"
)


def read_table(
    path: Path, schema: Schema | None = None
) -> tuple[Columns, csv_file.Form | None]:
    """The columns by name, and how the text of a CSV file is written.

    Labels of values, as SPSS and Stata keep them, stand in the place of their codes;
    but where only the ends of a scale have words, its numbers stay. A cell that a sheet
    shows as 47 % is the text "47 %", as in a CSV file, not the number 0.47.

    Args:
      path: of the file; every ending but those of the other formats is a CSV file.
      schema: says the encoding, and by its bounds, categories and classes which labels
        stand in the place of codes; None: the rows decide both.

    Raises:
      MissingExtra: the reader's library is not installed.
      OSError: it cannot be read.
      ValueError: it is no such file, has no rows, or is larger than the memory.
    """
    ending, size = path.suffix.lower(), path.stat().st_size
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if _COPIES * size > memory:
        raise ValueError(
            f"{path} has {size / 1e9:.3g} GB, which take {_COPIES} times as much "
            f"memory or more, and this machine has {memory / 1e9:.3g} GB; leave "
            "columns that are no features out of the file, or read it on a larger "
            "machine"
        )
    if ending in _READERS:
        with extras.needed("tables", path.name), files.readable(path, _EXPECTED):
            table, form = _READERS[ending](path, schema), None
        columns = columns_of(table, str(path))
    else:
        columns, form = csv_file.read(path, schema.encoding if schema else None)
    if not any(map(len, columns.values())):
        raise ValueError(f"{path} has no rows")
    return columns, form


def _parquet(path: Path, *_: Any) -> Any:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    for field in table.schema:
        is_extended = isinstance(field.type, pyarrow.BaseExtensionType)
        if is_extended or b"ARROW:extension:name" in (field.metadata or {}):
            raise Unfit(
                f"column {field.name} has a type of the program that wrote it, such "
                "as pandas' Period; write it as text (.astype(str))"
            )
    return table


def _workbook(path: Path, *_: Any) -> Any:
    """The one sheet that holds a table, its names in the first row."""
    import openpyxl
    import pandas

    tables = {}
    for part in openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets:
        with zipfile.ZipFile(path) as parts:
            sheet = parts.read(part._worksheet_path)
        if b"<mergeCell " in sheet:
            raise Unfit("it has merged cells; give each its own value")
        if _UNCOMPUTED.search(sheet):
            raise Unfit(
                "it has formulas without values; open it in a spreadsheet program "
                "and save it there"
            )
        part.reset_dimensions()  # which other programs write wrongly
        rows = (list(map(_cell, row)) for row in part.rows)
        filled = (row for row in rows if set(row) - {""})
        even = zip(*itertools.zip_longest(*filled, fillvalue=""), strict=True)
        frame = pandas.DataFrame(even, dtype=object)
        if len(frame) > 1:
            tables[part.title] = frame
            if _HIDDEN.search(sheet) or part.sheet_state != "visible":
                raise Unfit(
                    f"sheet {part.title} is hidden, or hides rows or columns, as a "
                    "filter does; show all of it, and delete what is not meant"
                )
    if not tables:
        return {}
    if len(tables) > 1:
        raise Unfit(
            f"{len(tables)} sheets hold a table: {', '.join(tables)}; leave one in it"
        )
    [frame] = tables.values()
    table = frame.iloc[1:].set_axis([str(name) for name in frame.iloc[0]], axis=1)
    nameless = [
        place
        for place, name in enumerate(table.columns, start=1)
        if not literals.normal(name) and (table.iloc[:, place - 1] != "").any()
    ]
    if nameless == [1] and table.iloc[:, 0].is_unique:  # names of rows
        table.columns = ["Unnamed: 0", *table.columns[1:]]
    elif nameless:
        raise Unfit(files.unnamed(nameless))
    table = table.where(table != "")  # beside a blank, numbers stay numbers
    return table.loc[:, [literals.normal(name) != "" for name in table.columns]]


def _cell(cell: Any) -> Any:
    """A cell's value, "" of none; a per cent, or a code with zeros, as it is shown."""
    form, value = _LITERALS.sub("", cell.number_format or ""), cell.value
    if "%" in form and isinstance(value, int | float):
        return f"{100 * value:.12g} %"
    return "" if value is None else _with_zeros(value, form)


def _with_zeros(value: Any, form: str | None) -> Any:
    """The text 00501 for 501 where its form shows it so; any other value as it is."""
    match = _DIGITS.fullmatch(form or "")
    if not match or not isinstance(value, int | float) or not value >= 0:
        return value
    width = int(match["width"] or len(match["zeros"]))
    return f"{value:0{width}.0f}" if value % 1 == 0 else value


def _of_statistics(path: Path, schema: Schema | None) -> Any:
    import pandas
    import pyreadstat

    table, meta = getattr(pyreadstat, _STATISTICS[path.suffix.lower()])(path)
    declared = {**schema.columns} if schema else {}
    if schema:
        declared[schema.label or ""] = SchemaColumn("category", values=schema.classes)
    for name, labels in meta.variable_value_labels.items():
        if column := declared.get(literals.normal(name)):
            low, high = column.bounds
        else:
            plain = table[name][~table[name].isin(list(labels))]
            plain = pandas.to_numeric(plain, errors="coerce")
            low, high = plain.min() - 1, plain.max() + 1
        values = column.values if column else ()
        is_scale = high - low <= _SCALE
        words = {
            code: label
            for code, label in labels.items()
            if (
                literals.normal(label) in values
                if values
                else not (is_scale and low <= code <= high)
            )
        }
        table[name] = [words.get(code, code) for code in table[name]]
    for name, form in meta.original_variable_types.items():
        if _DIGITS.fullmatch(form or ""):
            table[name] = [_with_zeros(code, form) for code in table[name]]
    return table


_READERS = {
    ".parquet": _parquet,
    ".xlsx": _workbook,
    ".xlsm": _workbook,
    **dict.fromkeys(_STATISTICS, _of_statistics),
}


def columns_of(table: Any, source: str) -> Columns:
    """A table's columns by name, of any object that maps names to columns.

    Raises:
      ValueError: there are no rows, two names are one, columns differ in length, or a
        column cannot be read.
    """
    if isinstance(table, Columns):
        return table
    columns = Columns()
    for name in getattr(table, "column_names", None) or list(table):
        key = literals.normal(str(name))
        if not key or key in columns:
            number = "two columns" if key else "a column"
            raise ValueError(
                f"{source} has {number} of the name {files.quoted(key)}; rename one"
            )
        columns[key] = cells.column_of(table[name], f"{source}: column {key}")
    lengths = {*map(len, columns.values())}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"{source} must have rows, and columns of one length; theirs: {lengths}"
        )
    return columns
