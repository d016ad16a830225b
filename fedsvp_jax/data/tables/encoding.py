"""Rows of a table as features of a model, by its schema.

One error names all faults of a table, each by column, row and remedy.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.dtypes import StringDType

from fedsvp_jax.core.settings import MAX_ATTRIBUTES
from fedsvp_jax.data.dataset import Column
from fedsvp_jax.data.tables import column_values, files
from fedsvp_jax.data.tables.column_values import place
from fedsvp_jax.data.tables.schema import OTHERS, Schema, SchemaColumn

_WHOLE = re.compile(r"-?[0-9]{1,400}")
_POINT = re.compile(r"\.0*$")
_SHOWN = 8  # columns of which an error tells


class Encoded(NamedTuple):
    """A table as a model takes it."""

    inputs: np.ndarray  # (rows, f) float32
    columns: dict[str, Column]  # what may be an attribute, by name
    clamped: dict[str, int]  # cells beyond the bounds, of columns that have any


def encode(
    schema: Schema,
    table: Mapping[str, np.ndarray],
    source: str,
    *,
    most_bytes: float = math.inf,
    wrong: Sequence[str] = (),
) -> Encoded:
    """The features of every row, and its categories as named columns.

    Args:
      schema: says what each column is.
      table: (rows,) values by column, of any type; others than the schema's are left
        out.
      source: the file, in messages.
      most_bytes: that the features may take.
      wrong: what is wrong with the table already.

    Raises:
      ValueError: what is wrong with each column, by name and row.
    """
    faults = list(wrong)
    features, attributes, clamped, size = [], {}, {}, 0
    for name, column in schema.columns.items():
        if column.type == "drop":
            continue
        at = f"{source}: column {name}"
        try:
            if name not in table:
                raise ValueError(f"{source} lacks the column {name}")
            size += 4 * len(table[name]) * column.width
            if size > most_bytes:
                raise ValueError(
                    f"{at} would make more than {most_bytes / 2**30:.1f} GiB of "
                    'features; leave columns of many texts out (type = "drop", or '
                    "--drop_columns)"
                )
            part, attribute, beyond = _encode_column(
                table[name], column, schema.decimal, at
            )
        except ValueError as error:
            faults.append(str(error))
            continue
        features.append(part)
        if attribute is not None:
            attributes[name] = attribute
        if beyond:
            clamped[name] = beyond
    refuse(faults)
    if not features:
        raise ValueError(f"{source} has no column of features")
    return Encoded(np.concatenate(features, axis=1), attributes, clamped)


def refuse(faults: Sequence[str]) -> None:
    """Raises ValueError: the faults in one line, if there are any."""
    if faults:
        rest = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
        raise ValueError("; ".join(faults[:_SHOWN]) + rest)


def _encode_column(
    values: np.ndarray, column: SchemaColumn, decimal: str, source: str
) -> tuple[np.ndarray, Column | None, int]:
    """(rows, k) float32 features; the categories, or None where they are too many or
    fractions; how many cells lie beyond the bounds.
    """
    if column.type == "category":
        written = column_values.texts(values, source)
        codes = coded(written, column.values, source)
        one_hot = _category_features(column.values)[codes]
        few = len(column.values) <= MAX_ATTRIBUTES
        attribute = Column(codes, column.values, not column.from_data) if few else None
        return one_hot, attribute, 0
    numbers = numbers_of(values, column, decimal, source)
    low, high = column.bounds
    beyond = int(((numbers < low) | (numbers > high)).sum())
    if not high > low:
        scaled = np.zeros((len(numbers), 1), np.float32)
    else:
        above, span = np.clip(numbers, low, high) - low, high - low
        part = np.log1p(above) / np.log1p(span) if column.log else above / span
        scaled = (2 * part - 1).astype(np.float32)[:, None]
    is_whole = column.type == "number" and (np.rint(numbers) == numbers).all()
    if not is_whole or column.missing or column.fill is not None:
        return scaled, None, beyond
    if len(np.unique(numbers)) > MAX_ATTRIBUTES:
        return scaled, None, beyond
    distinct, places = np.unique(
        column_values.texts(values, source), return_inverse=True
    )
    if len(distinct) > MAX_ATTRIBUTES:
        return scaled, None, beyond
    plain = np.array(
        [_POINT.sub("", text) for text in distinct.tolist()], StringDType()
    )
    return scaled, of_names(plain[places], None, source), beyond


def _category_features(values: Sequence[str]) -> np.ndarray:
    """(k, k) float32: the features of each category.

    One-hot, but for `OTHERS`, which is also the mean of all others: where the training
    had none, its own weight is untrained, and the model takes an average row.
    """
    table = np.eye(len(values), dtype=np.float32)
    if OTHERS in values and len(values) > 1:
        other = list(values).index(OTHERS)
        table[other] = 1 / (len(values) - 1)
        table[other, other] = 1
    return table


def numbers_of(
    values: np.ndarray, column: SchemaColumn, decimal: str, source: str
) -> np.ndarray:
    """(rows,) float64: the numbers or days of a column, missing cells filled.

    Raises:
      ValueError: a cell is missing without a fill value, or something else.
    """
    if column.type == "number" and not column.missing:
        plain = column_values.plain_numbers(values, decimal)
        if plain is not None:
            return plain
    written = column_values.texts(values, source)
    distinct, places = np.unique(written, return_inverse=True)
    numbers, kinds, is_date = np.empty(len(distinct)), [], column.type == "date"
    for row, text in enumerate(distinct.tolist()):
        missing, number = text in column.missing, None
        if not missing:
            days, of_number = column_values.days, column_values.number
            number = days(text) if is_date else of_number(text, decimal)
        kind = "number"
        if number is None:
            kind = "missing" if missing else column_values.kind(text, decimal)
            if kind == "missing" and column.fill is not None:
                number, kind = column.fill, "number"
            elif is_date and kind != "missing":
                kind = "text"  # a number is no date
        numbers[row] = np.nan if number is None else number
        kinds.append(kind)
    _refuse_kinds(written, np.array(kinds)[places], column.type, decimal, source)
    return numbers[places]


_REMEDIES = {
    "missing": "lacks a finite number {at}; fill it in, state a fill value in a schema "
    "(`fedsvp schema`), or leave the column out (--drop_columns)",
    "comma": "has commas in numbers {at}; write 3.5 and 1200, or state "
    'decimal = "," in a schema (`fedsvp schema`)',
    "text": "holds numbers and texts {at}; mend it, or state in a schema (`fedsvp "
    "schema`) that it means a missing number, or that the column is a category",
    "date": 'holds dates {at}; state type = "date" in a schema (`fedsvp schema`), or '
    "leave the column out (--drop_columns)",
    "no date": "holds no date {at}; write 2024-12-31, or state that it means a missing "
    "date",
}


def _refuse_kinds(
    written: np.ndarray, kinds: np.ndarray, type_: str, decimal: str, source: str
) -> None:
    for kind in ("text", "date", "comma", "missing"):
        wrong = kinds == kind
        if type_ == "date":
            wrong = kinds != "number"
            kind = "missing" if (kinds[wrong] == "missing").all() else "no date"
        if not wrong.any():
            continue
        remedy = _REMEDIES[kind].format(at=place(written, wrong))
        if decimal == "," and kind == "text":
            remedy += "; the table's decimals have commas, so 1.234 is refused"
        raise ValueError(f"{source} {remedy}")


def coded(values: np.ndarray, names: Sequence[str], source: str) -> np.ndarray:
    """(rows,) int32: which of the categories each value is.

    Args:
      values: (rows,) of any type.
      names: the categories; `OTHERS` among them takes what is none of them.
      source: the column, in messages.

    Raises:
      ValueError: a value is none of them.
    """
    distinct, rows = np.unique(values, return_inverse=True)
    places = {name: number for number, name in enumerate(names)}
    other = places.get(OTHERS, -1)
    codes = [places.get(str(text), other) for text in distinct.tolist()]
    of_row = np.asarray(codes, np.int32)[rows]
    if (of_row < 0).any():
        raise ValueError(
            f"{source} holds a text that is none of its categories "
            f"{place(values, of_row < 0)}; add it to them in the schema, or * for all "
            "others (`fedsvp schema` drafts one)"
        )
    return of_row


def of_names(values: np.ndarray, names: Sequence[str] | None, source: str) -> Column:
    """A column by its declared categories; None: those that occur, in order.

    Whole numbers are in the order of numbers, whatever else in that of letters.

    Raises:
      ValueError: a value is no declared category, or holds a control character.
    """
    if names is not None:
        return Column(coded(values, names, source), tuple(names))
    distinct, codes = np.unique(values, return_inverse=True)
    texts = [str(text) for text in distinct.tolist()]
    files.check_printable(texts, source)
    order = list(range(len(texts)))
    if all(map(_WHOLE.fullmatch, texts)):
        order = sorted(order, key=lambda number: (int(texts[number]), texts[number]))
    rank = np.argsort(np.asarray(order, np.int32)).astype(np.int32)
    names = tuple(texts[number] for number in order)
    return Column(rank[codes], names, public=False)
