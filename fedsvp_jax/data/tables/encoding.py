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

from ..dataset import CellMasks, Column
from . import cells, files, literals
from .cells import Cells, Columns, place
from .schema import OTHERS, UNITS, Schema, SchemaColumn, table_header, written

_WHOLE = re.compile(r"-?[0-9]{1,400}")
_FEW_CELLS = 20  # of which none need be a category that the schema names
_SCALE = 10  # whole numbers from 0 to 10, as a form asks for them
_YEAR = 366  # days from a bound: beyond, one date of most cells is no true one
_SEEN = 2**12  # rows of which more different numbers are no categories
# (rows, width) features; categories, if they are few; cells that were changed; the
# column with the cells' extremes in the place of its bounds
_Features = tuple[np.ndarray, Column | None, CellMasks, SchemaColumn]


class Misfit(ValueError):
    """A column that does not fit its schema: what is wrong, and what mends it."""

    def __init__(self, fault: str, remedy: str) -> None:
        super().__init__(f"{fault}; {remedy}")
        self.fault = fault


class Encoded(NamedTuple):
    """A table as a model takes it."""

    inputs: np.ndarray  # (rows, f) float32
    columns: dict[str, Column]  # what may be an attribute, by name
    changed_cells: dict[str, CellMasks]  # as `Dataset` has them
    extremes: dict[str, SchemaColumn]  # as `Dataset` has them
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
        mended. Features of a missing cell that nothing fills are NaN then.

    Raises:
      ValueError: what is wrong with each column, by name and row.
    """
    faults, at_extremes = list(wrong), list[str]()
    attributes, changed, extremes = {}, {}, {}
    declared, notation = schema.features, notation_of(schema, table)
    width, start = sum(column.width for column in declared.values()), 0
    inputs = np.empty((len(next(iter(table.values()))), width), np.float32)
    for name, column in declared.items():
        at = f"{source}: column {name}"
        with files.collected(faults):
            if name not in table:
                unread = [key for key in table if key not in declared]
                raise ValueError(
                    f"{source} lacks the column {name}{nearest(name, unread)}"
                )
            try:
                features, attribute, masks, extremes[name] = _encode_column(
                    table.pop(name), column, notation, at, of_model
                )
            except Misfit as error:
                if not of_model:
                    raise
                entries = written(dataclasses.replace(column, from_data=None)).items()
                takes = ", ".join(f"{k} = {v}" for k, v in entries)
                raise ValueError(
                    f"{error.fault}; mend the cells, for the model takes {takes}"
                ) from error
            inputs[:, start : start + column.width] = features
            start += column.width
            if attribute is not None:
                attributes[name] = attribute
            changed[name] = {kind: mask for kind, mask in masks.items() if mask.any()}
            # Within 1 % of both bounds, which are no form's.
            of_form = (
                np.ptp(column.bounds) <= _SCALE and not np.mod(column.bounds, 1).any()
            )
            if (
                column.from_data is None
                and changed[name].keys() <= {"missing"}
                and not of_form
                and features.min() <= -0.98
                and features.max() >= 0.98
            ):
                at_extremes.append(name)
    files.refuse(faults)
    if not width:
        raise ValueError(f"{source} has no column of features")
    return Encoded(inputs, attributes, changed, extremes, at_extremes)


def notation_of(schema: Schema, table: Columns) -> literals.Notation:
    """The schema's; or, where all fractions have the other decimal mark, that mark.

    A cell is the same number in both, or none: whether it is refused is all that other
    rows decide. Of a table without a schema, whose draft has the mark True, nobody
    stated what a comma is.
    """
    stated = schema.notation
    other = literals.Notation("," if stated.decimal == "." else ".")

    def occurs(mark: str) -> bool:
        return any(
            cells.fractions(table[name], mark)[0].any()
            for name, column in schema.features.items()
            if column.type in ("number", "percent")
            and name in table
            and not cells.is_numeric(table[name])
        )

    is_stated = stated.thousands or schema.classes_from_data is True
    if is_stated or occurs(stated.decimal) or not occurs(other.decimal):
        return stated
    return other


def _encode_column(
    values: Cells,
    column: SchemaColumn,
    notation: literals.Notation,
    source: str,
    of_model: bool,
) -> _Features:
    """The features of a column; fractions are no categories.

    Among the masks that of `"-9"` has cells beyond a bound whose number may mean a
    missing one, if most of those beyond this bound do; they are clamped, too. So has
    that of `"2"`, of whole numbers whose bounds are 0 and 1, the cells that are 2.
    A single -9 is a code only among rows that a model predicts. So has that of
    `"1900-01-01"` cells of one date, if most beyond a bound are, a year from it.
    """
    if column.type == "category":
        return _encode_category(values, column, source, of_model)
    numbers, missing = numbers_of(values, column, notation, source, of_model)
    is_number = column.type == "number"
    attribute, is_whole = None, is_number and not (numbers[~missing] % 1).any()
    if (
        column.fill is None
        and not (column.missing or column.limits)
        and is_whole
        and len(np.unique(numbers[:_SEEN])) <= MAX_ATTRIBUTES
    ):
        plain = pc.replace_substring_regex(cells.texts(values), r"\.0*$", "")
        attribute = by_name(plain, source)
        if len(attribute.categories) > MAX_ATTRIBUTES:
            attribute = None
    low, high = column.bounds
    below, above = numbers < low, numbers > high
    masks = {"clamped": below | above, "missing": missing}
    for beyond in (below, above):
        values, counts = np.unique(numbers[beyond & ~missing], return_counts=True)
        distance = abs(values - values.clip(low, high))
        near = is_whole & (high - low == 1) & (distance == 1)
        distant = (values <= 0) | (values > high + 1)
        distant &= (counts > 1) | of_model & (abs(values) > 1)
        codes = [*values[near]] or [*filter(literals.is_mark, values[distant])]
        if not is_number:
            codes = [*values[(distance > _YEAR) & (counts > max(1, beyond.sum() / 2))]]
        is_code = np.isin(numbers, codes) & ~missing
        if near.any() or 2 * is_code.sum() > beyond.sum():
            unit = UNITS.get(column.type, "{:.15g}".format)
            masks[", ".join(f'"{unit(code)}"' for code in codes)] = is_code
            masks["clamped"] &= ~is_code
    ends = np.fmin.reduce(numbers), np.fmax.reduce(numbers)
    extremes = dataclasses.replace(column, bounds=ends)
    return column.scaled(numbers), attribute, masks, extremes


def _encode_category(
    values: Cells, column: SchemaColumn, source: str, of_model: bool
) -> _Features:
    """As `_encode_column`.

    Raises:
      ValueError: `OTHERS` takes all, as where a file has codes for the schema's words.
    """
    missing = cells.is_missing(values)
    codes = coded(values, column.values, source, ~(missing & of_model))
    count = len(column.values)
    other = [*column.values, OTHERS].index(OTHERS)  # `count` where none is
    features = column.category_features[codes]
    features[codes < 0] = np.nan
    is_other = np.isin(codes, (-1, other))
    others = is_other & ~missing
    if count > 1 and _FEW_CELLS <= (~missing).sum() == others.sum():
        raise Misfit(
            f"{source} holds none of its categories "
            f"({files.shortened([*map(files.quoted, column.values)])}) "
            f"{place(values, others)}",
            "write them as the schema does, or leave the column out (--drop_columns)",
        )
    attribute = None
    if count <= MAX_ATTRIBUTES:
        attribute = Column(codes, column.values, not column.from_data)
    masks = {"others": others, "missing": is_other & missing}
    return features, attribute, masks, column


def marked(
    values: Cells, column: SchemaColumn, notation: literals.Notation
) -> tuple[np.ndarray, np.ndarray]:
    """(rows,) float64: the numbers of a column; and bool: which of its cells are listed
    as `missing`: as a text, or as a number, however it is written (-9, -9.0, -9,00).

    Within bounds such as [50, 100], which no fraction reaches, 88 is 88 % without its
    sign; within [0, 100] it is none, for 0.8 might be 0.8 % or 80 %.
    """
    unsigned = cells.without_limits(values) if column.limits else values
    listed, kind = pa.chunked_array([column.missing], pa.string()), column.type
    numbers = cells.values_of(unsigned, kind, notation, column.form)
    if kind == "percent" and 100 * column.bounds[0] > max(100, column.bounds[1]):
        bare = cells.values_of(values, "number", notation)
        numbers = np.where(bare == bare.clip(*column.bounds), bare, numbers)
    marks = [  # by both decimal marks, since which the file has is up to all rows
        cells.values_of(listed, kind, notation._replace(decimal=mark), column.form)
        for mark in literals.DECIMALS
        if mark != notation.thousands
    ]
    return numbers, cells.holds(values, column.missing) | np.isin(numbers, marks)


def numbers_of(
    values: Cells,
    column: SchemaColumn,
    notation: literals.Notation,
    source: str,
    of_model: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """(rows,) float64: what the cells of a column mean, missing ones filled; and bool:
    which are missing.

    Raises:
      ValueError: a cell is missing without a fill value, unless it is `of_model`, or
        something else.
    """
    numbers, missing = marked(values, column, notation)
    if (missing | np.isnan(numbers)).any():
        missing = missing | cells.is_missing(values)
        numbers[missing] = np.nan if column.fill is None else column.fill
        wrong = np.isnan(numbers) & ~(missing & of_model)
        if wrong.any():
            _refuse(values, wrong, column, notation, source)
    return numbers, missing


_REMEDIES = toml_beside(__file__, "encoding.toml")


def _refuse(
    values: Cells,
    wrong: np.ndarray,
    column: SchemaColumn,
    notation: literals.Notation,
    source: str,
) -> None:
    """Raises Misfit: which cells are wrong, and what mends them."""
    names, codes = cells.distinct(values)
    of_type = f"no {column.type}"
    kinds = np.array(
        [
            of_type
            if of_type in _REMEDIES and text.lower() not in literals.NO_VALUE
            else "limit"
            if re.match(literals.BEYOND + "[0-9.,]+$", text)
            else literals.kind(text, notation)
            for text in names
        ]
    )[codes]
    kind = next(kind for kind in _REMEDIES if kind in kinds[wrong])
    of_kind = wrong & (kinds == kind)
    cell = names[codes[of_kind.argmax()]]
    mark = literals.grouped(cell)
    # What names a year is a slip, and no mark of a missing date.
    fault, remedy = _REMEDIES[
        "no day" if kind == "no date" and re.search(r"\b(19|20)\d\d\b", cell) else kind
    ]
    raise Misfit(
        f"{source} {fault} {place(values, of_kind)}",
        remedy.format(
            table=table_header(source.rpartition(": column ")[2]),
            cell=files.quoted(cell),
            bounds=column.bounds,
            notation=notation,
            mark=mark,
            other=' or decimal = ","' * (mark == ","),
        ),
    )


def check_named(written: Cells, kind: str, source: str) -> None:
    """Raises ValueError: a row names no client, or no person."""
    if (blank := cells.is_missing(written)).any():
        raise ValueError(
            f"{source} names no {kind} {place(written, blank)}; name one, or leave the "
            "row out"
        )


def coded(
    values: Cells,
    names: Sequence[str],
    source: str,
    required: np.ndarray | bool = True,
) -> np.ndarray:
    """(rows,) int32: which of the categories each value is; -1: none of them.

    Args:
      values: (rows,) cells.
      names: the categories; `OTHERS` among them takes what is none of them.
      source: the column, in messages.
      required: (rows,) bool: cells that must be one of them.

    Raises:
      ValueError: such a cell is none of them.
    """
    other = names.index(OTHERS) if OTHERS in names else -1
    listed = cells.as_codes(pa.chunked_array([names], pa.string())).combine_chunks()
    places = pc.index_in(cells.as_codes(values), listed)
    codes: np.ndarray = places.fill_null(other).to_numpy()
    if (wrong := (codes < 0) & required).any():
        raise Misfit(
            f"{source} is blank, or none of its categories {place(values, wrong)}",
            f"write the schema's values, {files.shortened([*map(files.quoted, names)])}"
            "; or state in the schema (`fedsvp schema` drafts one) * for all others",
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
        order = np.argsort(np.array([*map(int, names)], object), kind="stable")
        names, codes = [names[at] for at in order], np.argsort(order)[codes]
    return Column(codes, tuple(names), public=False)
