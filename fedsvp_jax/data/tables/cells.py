"""The columns of a table as Arrow's arrays: texts as written, and what they mean.

Text is normalised here, where it enters, and nowhere else. Nothing is guessed: a cell
that could be meant in two ways is no number.
"""

import contextlib
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import files, literals

_HOLDS_ARRAYS = "{} holds arrays; leave it out, or make a Dataset of arrays"
_FEW = 20  # rows: in more, the first may be of units, and the last a footer
_TYPED = "\ue000"  # the point of a number beside texts, whatever mark these have
_EXACT = 2**53  # float64 holds every whole number below


Cells: TypeAlias = pa.ChunkedArray  # (rows,) of one column


class Columns(dict[str, Cells]):
    """A table's columns by name, whose texts are normalised."""


def normal_texts(column: Cells) -> Cells:
    """`literals.normal` of every text, (rows,), in one line."""
    column = pc.utf8_trim_whitespace(column)
    written = (bytes(chunk.buffers()[-1] or b"") for chunk in column.chunks)
    if any(mark in chunk for chunk in written for mark in b"\t\r\n"):
        column = pc.replace_substring_regex(column, "[\t\r\n]+", " ")
    if pc.all(pc.string_is_ascii(column), min_count=0).as_py():
        return column
    encoded = column.dictionary_encode().combine_chunks()
    plain = pa.array(map(literals.normal, encoded.dictionary.to_pylist()), pa.string())
    return pa.chunked_array([plain.take(encoded.indices)])


def column_of(values: Any, source: str) -> Cells:
    """(rows,) texts, or numbers and truth values as they are, of any sequence.

    Raises:
      ValueError: the column holds arrays or durations; `source` names it.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "T":
        values = values.astype(object)
    try:
        is_arrow = isinstance(values, pa.Array | Cells)
        array = values if is_arrow else pa.array(values, from_pandas=True)
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        if isinstance(array.type, pa.BaseExtensionType):  # as of pandas' Period
            raise pa.ArrowInvalid("its storage has another meaning")
    except (pa.ArrowException, ValueError, OverflowError):  # cells of several types
        if np.ndim(next(iter(values))):
            raise ValueError(_HOLDS_ARRAYS.format(source)) from None
        array = pa.array(_mixed_texts(list(values), source), pa.string())
    column = pa.chunked_array([array]) if isinstance(array, pa.Array) else array
    kind = column.type
    if pa.types.is_nested(kind):
        raise ValueError(_HOLDS_ARRAYS.format(source))
    if pa.types.is_duration(kind):
        raise ValueError(
            f"{source} holds durations; write them as numbers "
            "(.dt.total_seconds()), or leave the column out (--drop_columns)"
        )
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            column = pc.local_timestamp(column)
        column = column.cast(pa.timestamp("s"), safe=False).cast(pa.date32())
    if is_numeric(column):
        return column
    return normal_texts(column.cast(pa.string()).fill_null(""))


def is_numeric(column: Cells) -> bool:
    """Whether a column came as numbers or truth values."""
    types = pa.types
    kinds = types.is_integer, types.is_floating, types.is_decimal, types.is_boolean
    return any(is_kind(column.type) for is_kind in kinds)


def _mixed_texts(values: list[Any], source: str) -> list[str]:
    """(rows,) of each cell, as a column of its type alone has it.

    So no row decides how another is read. Of a single type, they are Python's.
    """
    kinds = {*map(type, values)}
    if len(kinds) == 1:
        return [*map(str, values)]
    by_kind = {
        kind: iter(texts(column_of([v for v in values if type(v) is kind], source)))
        for kind in kinds
    }
    written = ((value, next(by_kind[type(value)]).as_py()) for value in values)
    # The number 1.234 beside texts is not 1,234, and 0.9 is beside 0,9 what it is.
    return [
        text if isinstance(value, str) else re.sub("[.](?=[0-9e+-]+$)", _TYPED, text)
        for value, text in written
    ]


def texts(column: Cells) -> Cells:
    """(rows,) texts: numbers as they are written, whole ones without a point."""
    if not is_numeric(column):
        return pc.replace_substring(column, _TYPED, ".")
    if pa.types.is_boolean(column.type):
        column = pc.if_else(column, "True", "False")
    elif not pa.types.is_integer(column.type):
        number = column.cast(pa.float64())
        exact = pc.less(pc.abs(number), _EXACT)
        is_whole = pc.and_(exact, pc.equal(pc.floor(number), number))
        integers = pc.if_else(is_whole, number, None).cast(pa.int64())
        number = pc.if_else(pc.is_nan(number), None, number)
        column = pc.coalesce(integers.cast(pa.string()), number.cast(pa.string()))
    return column.cast(pa.string()).fill_null("")


def as_codes(column: Cells) -> Cells:
    """(rows,) texts, where 2.0, 2.00 and 2,0 are 2: one code, however it is written."""
    pattern = "^(-?(?:0|[1-9][0-9]*))[.,]00?$"
    return pc.replace_substring_regex(texts(column), pattern, r"\1")


def distinct(column: Cells) -> tuple[list[str], np.ndarray]:
    """The different texts by letters, and (rows,) int32: which of them each cell is."""
    encoded = texts(column).dictionary_encode().combine_chunks()
    order = pc.sort_indices(encoded.dictionary)
    codes = np.argsort(order).astype(np.int32)[encoded.indices]
    return encoded.dictionary.take(order).to_pylist(), codes


def of_clients(columns: Columns, client: str | None) -> tuple[list[str], np.ndarray]:
    """The clients' names, and (rows,) int32: whose each row is, by a column, if any."""
    if client is not None and client in columns:
        return distinct(columns[client])
    return [""], np.zeros(len(next(iter(columns.values()))), np.int32)


def num_distinct(column: Cells) -> int:
    """The number of different values, without missing ones."""
    return int(pc.count_distinct(column).as_py())


def holds(column: Cells, marks: Sequence[str]) -> np.ndarray:
    """(rows,) bool: which cells are one of these texts."""
    return np.asarray(pc.is_in(texts(column), pa.array(marks, pa.string())))


def is_missing(column: Cells) -> np.ndarray:
    """(rows,) bool: blanks, NA, ?, and what is no finite number."""
    return holds(pc.ascii_lower(texts(column)), literals.NO_VALUE)


def numbers(column: Cells, notation: literals.Notation) -> np.ndarray:
    """(rows,) float64: the finite numbers that are plainly written; NaN elsewhere."""
    decimal, thousands = notation
    if is_numeric(column) or notation == literals.Notation():
        with contextlib.suppress(pa.ArrowInvalid):
            return _floats(column)
    mark, other = re.escape(decimal), "," if decimal == "." else "."
    column = pc.replace_substring(column, _TYPED, decimal)
    group, tail = re.escape(thousands or other), f"{mark}[0-9]+"
    if thousands:
        tail = f"(?:{tail})?"
    digits = rf"[0-9]+{mark}?[0-9]*|{mark}[0-9]+"
    grouped = f"[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+{tail}"
    pattern = rf"^[+-]?(?:(?:{digits})(?:[eE][+-]?[0-9]+)?|{grouped})$"
    plain = pc.if_else(pc.match_substring_regex(column, pattern), column, None)
    plain = pc.replace_substring(plain, thousands or other, "")
    return _floats(pc.replace_substring(plain, decimal, "."))


def _of_each(column: Cells, meaning: Callable[[str], float]) -> np.ndarray:
    names, codes = distinct(column)
    return np.array([meaning(text) for text in names] or [math.nan])[codes]


def values_of(
    column: Cells,
    type_: str,
    notation: literals.Notation,
    form: str = literals.DATE_FORMS[0],
) -> np.ndarray:
    """(rows,) float64: what the cells mean as a `type_`; NaN where they mean nothing.

    Args:
      column: of a table.
      type_: number, percent (45 of `45 %`), date (days since 1970-01-01) or time (hours
        since midnight).
      notation: of numbers.
      form: of dates with slashes, of `literals.DATE_FORMS`.
    """
    if type_ in ("number", "percent"):
        if type_ == "percent":
            column = texts(column)
            is_percent = pc.ends_with(column, "%")
            column = pc.if_else(is_percent, _without_percent(column), None)
        values = numbers(column, notation)
        return np.where(np.isfinite(values), values, np.nan)
    written = texts(column)
    if type_ == "time":
        return _of_each(written, literals.hours)
    # Without the time of the day: else every second would be another text.
    written = pc.replace_substring_regex(
        written, f"^([0-9-]{{10}}){literals.TAIL}$", r"\1"
    )
    return _of_each(written, lambda text: literals.days(text, form))


def without_limits(column: Cells) -> Cells:
    """(rows,) cells: `<0.5` and `> 40`, beyond limits of detection, as 0.5 and 40."""
    if is_numeric(column):
        return column
    return pc.replace_substring_regex(column, literals.BEYOND, "")


def _without_percent(column: Cells) -> Cells:
    """`45 %` is 45, and so is `45%`."""
    return pc.utf8_rtrim_whitespace(pc.utf8_rtrim(column, "%"))


def fractions(column: Cells, decimal: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows,) bool: numbers and per cents with this mark before a fraction; those that
    may have it between thousands, as in `12,697`; and those of them that no program
    writes as fractions beside the column's others.

    These are `49.500` beside `34.5`, which lacks the zeros; and all beside whole
    numbers below 1,000, if no fraction has another number of digits.
    """
    has_mark = pc.match_substring(column, decimal).to_numpy()
    if not has_mark.any():
        return has_mark, has_mark, has_mark
    column = _without_percent(column)

    def matches(pattern: str) -> np.ndarray:
        return np.asarray(pc.match_substring_regex(column, f"^[+-]?{pattern}$"))

    in_groups = matches(rf"[1-9][0-9]{{0,2}}(?:[{decimal}][0-9]{{3}})+")
    values = numbers(column, literals.Notation(decimal))
    is_fraction = np.isfinite(values) & has_mark & ~in_groups
    is_odd = in_groups & matches(".*0") if is_fraction.any() else in_groups
    shorter = matches(rf"[0-9]{{1,3}}(?:[{decimal}][0-9]{{1,2}})?")
    return is_fraction, in_groups, is_odd & shorter.any()


def place(column: Cells, wrong: np.ndarray) -> str:
    """`('old' in row 20, or 21 with the header, the first of 3)`: the wrong cells.

    Args:
      column: (rows,) the cells.
      wrong: (rows,) bool, at least one.
    """
    rows = np.flatnonzero(wrong)
    note = f", the first of {len(rows)}" if len(rows) > 1 else ""
    cell = texts(column.slice(int(rows[0]), 1))[0].as_py()
    end = {0: "first\n", len(wrong) - 1: "last\n"}.get(rows[0], "")
    if cause := literals.question(
        [end * (len(wrong) > _FEW * len(rows)) + cell], "misread", "slips"
    ):
        note += f": {cause}"
    cell = files.quoted(cell)
    return f"({cell} in row {rows[0] + 1}, or {rows[0] + 2} with the header{note})"


def _floats(column: Cells) -> np.ndarray:
    """(rows,) float64; NaN where there is no value."""
    return np.asarray(column.cast(pa.float64(), safe=False)).astype(np.float64)
