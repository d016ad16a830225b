"""Rows of a table as features of a model, by its schema.

One error names all faults of a table, each by column, row and remedy.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedsvp_jax.core.files import toml_beside
from fedsvp_jax.core.settings import MAX_ATTRIBUTES, nearest

from ..dataset import Column
from . import cells, files, literals
from .cells import Cells, Columns, place
from .schema import OTHERS, Schema, SchemaColumn, written

_WHOLE = re.compile(r"-?[0-9]{1,400}")
_FEW_CELLS = 20  # of which none need be a category that the schema names
_SCALE = 10  # whole numbers from 0 to 10, as a form asks for them
_SEEN = 2**12  # rows of which more different numbers are no categories


class Misfit(ValueError):
    """A column that does not fit its schema: what is wrong, and what mends it."""

    def __init__(self, fault: str, remedy: str) -> None:
        super().__init__(f"{fault}; {remedy}")
        self.fault = fault


class Encoded(NamedTuple):
    """A table as a model takes it."""

    inputs: np.ndarray  # (rows, f) float32
    columns: dict[str, Column]  # what may be an attribute, by name
    beyond: dict[str, np.ndarray]  # rows that were clamped, or taken as `OTHERS`
    at_extremes: list[str]  # columns without a mark whose bounds are the rows' extremes


def encode(
    schema: Schema,
    table: Columns,
    source: str,
    *,
    wrong: Sequence[str] = (),
    of_model: bool = False,
) -> Encoded:
    """The features of every row, and its categories as named columns.

    Args:
      schema: says what each column is.
      table: columns by name. Each is removed from it before it is encoded, so that the
        memory never holds all texts and all features.
      source: the file, in messages.
      wrong: what is wrong with the table already.
      of_model: whether a trained model has the schema, so that the cells alone can be
        mended.

    Raises:
      ValueError: what is wrong with each column, by name and row.
    """
    faults, attributes, outside, at_extremes = list(wrong), {}, {}, list[str]()
    declared = schema.features
    width, start = sum(column.width for column in declared.values()), 0
    inputs = np.empty((len(next(iter(table.values()))), width), np.float32)
    for name, column in declared.items():
        at = f"{source}: column {name}"
        with files.collected(faults):
            if name not in table:
                raise ValueError(
                    f"{source} lacks the column {name}{nearest(name, tuple(table))}"
                )
            try:
                features, attribute, beyond = _encode_column(
                    table.pop(name), column, schema.notation, at
                )
            except Misfit as error:
                if not of_model:
                    raise
                plain = dataclasses.replace(column, from_data=None)
                takes = ", ".join(f"{k} = {v}" for k, v in written(plain).items())
                raise ValueError(
                    f"{error.fault}; mend the cells, for the model takes {takes}"
                ) from error
            inputs[:, start : start + column.width] = features
            start += column.width
            if attribute is not None:
                attributes[name] = attribute
            if len(beyond):
                outside[name] = beyond
            elif column.from_data is None and _ends_at(column.bounds, features):
                at_extremes.append(name)
    files.refuse(faults)
    if not width:
        raise ValueError(f"{source} has no column of features")
    return Encoded(inputs, attributes, outside, at_extremes)


def _ends_at(bounds: tuple[float, float], features: np.ndarray) -> bool:
    """Whether features come within 1 % of both bounds, which are no form's."""
    of_form = np.ptp(bounds) <= _SCALE and not np.mod(bounds, 1).any()
    return not of_form and features.min() <= -0.98 and features.max() >= 0.98


def _encode_column(
    values: Cells, column: SchemaColumn, notation: literals.Notation, source: str
) -> tuple[np.ndarray, Column | None, np.ndarray]:
    """(rows, width) features; categories; rows beyond bounds or stated categories.

    Categories are None where there are too many, or fractions.
    """
    if column.type == "category":
        codes = coded(values, column.values, source)
        one_hot = _category_features(column.values)
        few = len(column.values) <= MAX_ATTRIBUTES
        attribute = Column(codes, column.values, not column.from_data) if few else None
        return one_hot[codes], attribute, _count_others(codes, values, column, source)
    numbers = numbers_of(values, column, notation, source)
    attribute = None
    is_whole = column.type == "number" and not column.missing and column.fill is None
    if (
        is_whole
        and (numbers == np.rint(numbers)).all()
        and len(np.unique(numbers[:_SEEN])) <= MAX_ATTRIBUTES
    ):
        plain = pc.replace_substring_regex(cells.texts(values), r"\.0*$", "")
        attribute = by_name(plain, source)
        if len(attribute.categories) > MAX_ATTRIBUTES:
            attribute = None
    low, high = column.bounds
    scaled = np.zeros(len(numbers), np.float32)
    beyond = np.flatnonzero((numbers < low) | (numbers > high))
    if high > low:
        above, span = np.clip(numbers, low, high) - low, high - low
        share = np.log1p(above) / np.log1p(span) if column.log else above / span
        scaled[:] = 2 * share - 1
    return scaled[:, None], attribute, beyond


def _count_others(
    codes: np.ndarray, values: Cells, column: SchemaColumn, source: str
) -> np.ndarray:
    """The rows with a text that `OTHERS` takes.

    Raises:
      ValueError: that are all cells, as where a file has codes for the schema's words.
    """
    if OTHERS not in column.values:
        return np.empty(0, int)
    filled = ~cells.is_missing(values)
    others = filled & (codes == column.values.index(OTHERS))
    if len(column.values) > 1 and _FEW_CELLS <= filled.sum() == others.sum():
        named = ", ".join(map(repr, column.values[:3]))
        raise Misfit(
            f"{source} holds none of its categories ({named}, …) "
            f"{place(values, others)}",
            "write them as the schema does, or leave the column out (--drop_columns)",
        )
    return np.flatnonzero(others)


def _category_features(values: Sequence[str]) -> np.ndarray:
    """(k, k) float32: the features of each category.

    They are one-hot. `OTHERS` is also the mean of all other categories: where no
    training row had it, its own weight is untrained, and the model sees an average row.
    """
    table = np.eye(len(values), dtype=np.float32)
    if OTHERS in values and len(values) > 1:
        other = list(values).index(OTHERS)
        table[other] = 1 / (len(values) - 1)
        table[other, other] = 1
    return table


def numbers_of(
    values: Cells, column: SchemaColumn, notation: literals.Notation, source: str
) -> np.ndarray:
    """(rows,) float64: what the cells of a column mean, missing ones filled.

    Raises:
      ValueError: a cell is missing without a fill value, or something else.
    """
    numbers = cells.values_of(values, column.type, notation, column.form)
    listed = cells.holds(values, column.missing)
    numbers[listed] = np.nan
    if column.fill is not None:
        missing = listed | cells.is_missing(values)
        numbers[missing & np.isnan(numbers)] = column.fill
    if (wrong := np.isnan(numbers)).any():
        _refuse(values, wrong, column, notation, source)
    return numbers


_FAULTS = toml_beside(__file__, "encoding.toml")


def _refuse(
    values: Cells,
    wrong: np.ndarray,
    column: SchemaColumn,
    notation: literals.Notation,
    source: str,
) -> None:
    """Raises Misfit: which cells are wrong, and what mends them."""
    unknown_cells = wrong & ~cells.is_missing(values)
    otherwise = _FAULTS["otherwise"].get(column.type)
    if otherwise and unknown_cells.any():
        fault, remedy = otherwise
        raise Misfit(f"{source} {fault} {place(values, unknown_cells)}", remedy)
    names, codes = cells.distinct(values)
    kinds = np.array([literals.kind(text, notation) for text in names])[codes]
    for kind, (fault, remedy) in _FAULTS["remedies"].items():
        of_kind = wrong & (kinds == kind)
        if not of_kind.any():
            continue
        mark = literals.grouped(names[codes[of_kind.argmax()]])
        marks = f'thousands = "{mark}"'
        if mark in literals.DECIMALS:
            marks += f' or decimal = "{mark}"'
        at = place(values, of_kind)
        raise Misfit(f"{source} {fault} {at}", remedy.format(marks=marks))


def check_named(written: Cells, kind: str, source: str) -> None:
    """Raises ValueError: a row names no client, or no person."""
    if (blank := cells.is_missing(written)).any():
        raise ValueError(
            f"{source} names no {kind} {place(written, blank)}; name one, or leave the "
            "row out"
        )


def coded(values: Cells, names: Sequence[str], source: str) -> np.ndarray:
    """(rows,) int32: which of the categories each value is.

    Args:
      values: (rows,) cells.
      names: the categories; `OTHERS` among them takes what is none of them.
      source: the column, in messages.

    Raises:
      ValueError: a value is none of them.
    """
    other = names.index(OTHERS) if OTHERS in names else -1
    listed = cells.as_codes(pa.chunked_array([names], pa.string())).combine_chunks()
    places = pc.index_in(cells.as_codes(values), listed)
    codes: np.ndarray = places.fill_null(other).to_numpy()
    if (codes < 0).any():
        raise Misfit(
            f"{source} holds a text that is none of its categories "
            f"{place(values, codes < 0)}",
            "mend it, or add it to them in the schema, or * for all others (`fedsvp "
            "schema` drafts one)",
        )
    return codes


def by_name(values: Cells, source: str) -> Column:
    """A column by the categories that occur, in order.

    Whole numbers are in the order of numbers, whatever else in that of letters.

    Args:
      values: (rows,) cells.
      source: the column, in messages.

    Raises:
      ValueError: a text holds a control character.
    """
    names, codes = cells.distinct(cells.as_codes(values))
    files.check_printable(names, source)
    if all(map(_WHOLE.fullmatch, names)):
        order = np.array(sorted(range(len(names)), key=lambda at: int(names[at])), int)
        names, codes = [names[at] for at in order], np.argsort(order)[codes]
    return Column(codes, tuple(names), public=False)
