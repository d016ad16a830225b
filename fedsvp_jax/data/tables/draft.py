"""Drafts a schema from the records of a table.

All that a draft takes from the records is marked `from_data`. As a file it is a
proposal that its reader confirms (`fedsvp schema`). Where a run on a table has no
schema, a draft stands in for one, and it is strict then: the encoder refuses whatever
could be meant in two ways.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsvp_jax.data.dataset import Column
from fedsvp_jax.data.tables import column_values, encoding, files
from fedsvp_jax.data.tables.column_values import place
from fedsvp_jax.data.tables.schema import (
    MOST_CLASSES,
    MOST_VALUES,
    OTHERS,
    Schema,
    SchemaColumn,
)

_NO_LABEL = ("", "NA", "N/A", "#N/A", "nan", "NaN", "<NA>", "NULL")
_LABELS = ("label", "target", "class", "outcome", "death", "diagnosis", "y", "income")
_CLIENTS = ("hospital", "clinic", "site", "centre", "center", "institution", "ward")
_OTHER_CLIENTS = ("client", "client_id", "user", "klinik", "spital", "standort")
_ID = re.compile(r"(^|[ _.-])(id|nr|no|uuid|key|index|mrn|name)$|^unnamed", re.I)
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(\.[0-9]{3})+")  # where a comma is the mark
_MARKED = re.compile(r"[<>~≤≥]? ?[+-]?[0-9][0-9.,']* ?(%|[a-zµ]+/[a-z]+|[mkµ]?[glm])?$")
_MOST_ODD = 3  # texts among numbers that are proposed as marks of missing cells
_SKEWED = 0.25  # nine tenths of the numbers lie in this part of their range: log
_FEW = 20  # rows of which nothing is inferred
_LEFT_OUT = SchemaColumn("drop", from_data=True)  # one record more, and it may stay


class Draft(NamedTuple):
    """A schema, and notes on its columns for its reader."""

    schema: Schema
    notes: dict[str, str]  # by "label", "client" and "columns.NAME"


def proposed(
    columns: Mapping[str, np.ndarray],
    *,
    label: str,
    client: str | None,
    drop: Sequence[str] = (),
    source: str,
    encoding: str = "utf-8",
) -> Draft:
    """The draft that `fedsvp schema` writes, of a table of texts.

    Raises:
      ValueError: the label is none.
    """
    rest = [name for name in columns if name not in (label, client)]
    decimal = _decimal({n: columns[n] for n in rest if n not in drop}, source)
    schema_columns, notes = {}, {}
    for name in rest:
        if name in drop:
            schema_columns[name] = SchemaColumn("drop")
        elif name == "split":
            continue
        else:
            schema_columns[name], note = _draft_column(
                name, columns[name], decimal, source
            )
            if note:
                notes[f"columns.{name}"] = note
    class_column = classes(columns[label], f"{source}: column {label}")
    schema = Schema(
        columns=schema_columns,
        label=label,
        classes=class_column.categories,
        classes_from_data=True,
        client=client,
        decimal=decimal,
        encoding=encoding,
        test_fraction=None if "split" in columns else 0.2,
    )
    return Draft(schema, notes)


def _decimal(columns: Mapping[str, np.ndarray], source: str) -> str:
    """The mark before a fraction.

    Raises:
      ValueError: some numbers have a point, and some a comma.
    """
    seen: dict[str, list[str]] = {",": [], ".": []}
    for name, written in columns.items():
        distinct = np.unique(written).tolist()
        for mark, kind in ((",", "comma"), (".", "number")):
            marked = [
                text
                for text in distinct
                if mark in text
                and column_values.kind(text) == kind
                and not _THOUSANDS.fullmatch(text)
            ]
            if marked:
                at = place(written, np.isin(written, marked))
                seen[mark].append(f"{name} {at}")
    if seen[","] and seen["."]:
        raise ValueError(
            f"{source}: decimal commas in {'; '.join(seen[','])}, and decimal points "
            f"in {'; '.join(seen['.'])}: write all of them one way, or leave columns "
            "out (--drop_columns)"
        )
    return "," if seen[","] else "."


def guessed(columns: Mapping[str, np.ndarray]) -> tuple[str | None, str | None]:
    """The label and the client column by their names, or None.

    A label that has no such name is the last column of 2 to 10 different values.
    """

    def first_of(candidates: Sequence[str]) -> str | None:
        low = {name.lower(): name for name in columns}
        return next((low[name] for name in candidates if name in low), None)

    label = first_of(_LABELS)
    if label is None:
        few = [k for k, v in columns.items() if 2 <= len(np.unique(v)) <= 10]
        label = few[-1] if few else None
    client = first_of(_CLIENTS + _OTHER_CLIENTS)
    return label, None if client == label else client


def _draft_column(
    name: str, written: np.ndarray, decimal: str, source: str
) -> tuple[SchemaColumn, str]:
    distinct, counts = np.unique(written, return_counts=True)
    names = distinct.tolist()
    kinds = np.array([column_values.kind(text, decimal) for text in names])
    share = {kind: counts[kinds == kind].sum() / len(written) for kind in set(kinds)}
    blank = share.get("missing", 0.0)
    if blank == 1:
        return _LEFT_OUT, "no cell has a value"
    unique = len(written) > _FEW and len(distinct) == len(written)
    marked = [text for text in names if _MARKED.match(text)]
    hint = f"{files.quoted(marked[0])}: a number? write it plainly" if marked else ""
    if unique and (_ID.search(name) or set(kinds) == {"text"}):
        why = hint or "a value of its own in every row: an identifier?"
        return _LEFT_OUT, why
    if share.get("date", 0.0) + blank == 1:
        days = np.array([column_values.days(t) or 0.0 for t in names])
        return _numeric("date", days, counts, kinds == "date", blank)
    marks = [
        t for t, kind in zip(names, kinds, strict=True) if kind in ("text", "date")
    ]
    numeric = share.get("number", 0.0)
    if numeric > 0 and (
        not marks or (len(marks) <= _MOST_ODD and numeric + blank >= 0.5)
    ):
        numbers = [column_values.number(text, decimal) or 0.0 for text in names]
        column, note = _numeric(
            "number", np.array(numbers), counts, kinds == "number", blank or len(marks)
        )
        if marks:
            words = ", ".join(map(files.quoted, marks))
            note = f"{words}: a missing number? {note}".rstrip()
            column = SchemaColumn(
                "number",
                column.bounds,
                column.fill,
                tuple(marks),
                log=column.log,
                from_data=True,
            )
        return column, note
    if len(distinct) > MOST_VALUES:
        why = hint or f"{len(distinct)} different texts: an identifier?"
        return _LEFT_OUT, why
    categories = encoding.of_names(written, None, f"{source}: column {name}").categories
    values = (*(text for text in categories if text not in ("", OTHERS)), OTHERS)
    return SchemaColumn("category", values=values, from_data=True), hint


def _numeric(
    type_: str, values: np.ndarray, counts: np.ndarray, usable: np.ndarray, blank: float
) -> tuple[SchemaColumn, str]:
    """Bounds from the least to the largest value; the median fills missing cells."""
    present, present_counts = values[usable], counts[usable]
    fill = None
    if blank:
        fill = _quantile(present, present_counts, 0.5)
    bounds = low, high = float(present.min()), float(present.max())
    upper = _quantile(present, present_counts, 0.9)
    log = type_ == "number" and upper - low < _SKEWED * (high - low)
    note = f"{100 * blank:.2g} % of the cells are missing" if 0 < blank < 1 else ""
    return SchemaColumn(type_, bounds, fill, log=log, from_data=True), note


def _quantile(values: np.ndarray, counts: np.ndarray, share: float) -> float:
    order = np.argsort(values)
    reached = np.searchsorted(counts[order].cumsum(), share * counts.sum())
    return float(values[order][reached])


def strict(
    columns: Mapping[str, np.ndarray],
    is_train: np.ndarray,
    *,
    label: str,
    dropped: set[str | None],
    source: str,
) -> tuple[Schema, list[str]]:
    """The schema of a table that has none, and the faults of the table.

    Bounds are those of the training rows, categories and classes those that occur.

    Args:
      columns: (rows,) values of any type.
      is_train: (rows,) bool.
      label: the column of the class.
      dropped: columns that are no features, the label among them.
      source: the file, in messages.
    """
    schema_columns, wrong = {}, []
    try:
        class_names = classes(columns[label], f"{source}: column {label}").categories
    except ValueError as error:
        class_names = ()
        wrong.append(str(error))
    for name in columns:
        if name in dropped:
            continue
        try:
            schema_columns[name] = _strict_column(
                columns[name], is_train, f"{source}: column {name}"
            )
        except ValueError as error:
            wrong.append(str(error))
    return Schema(schema_columns, label, class_names, classes_from_data=True), wrong


def _strict_column(
    values: np.ndarray, is_train: np.ndarray, source: str
) -> SchemaColumn:
    numbers = column_values.plain_numbers(values, ".")
    written = None if numbers is not None else column_values.texts(values, source)
    if written is not None:
        numbers = column_values.plain_numbers(written, ".")
    if numbers is not None:
        train_numbers = numbers[is_train]
        low, high = (
            train_numbers.min(initial=np.inf),
            train_numbers.max(initial=-np.inf),
        )
        return SchemaColumn("number", (float(low), float(high)), from_data=True)
    assert written is not None
    kinds = {column_values.kind(text) for text in np.unique(written).tolist()}
    if "text" not in kinds or "number" in kinds:
        return SchemaColumn("number", from_data=True)  # which the encoder refuses
    if (written == "").any():
        raise ValueError(
            f"{source} lacks a text {place(written, written == '')}; fill it in, leave "
            "the column out (--drop_columns), or declare its categories in a schema "
            "(`fedsvp schema`) with * for all others"
        )
    names = encoding.of_names(written, None, source).categories
    if len(names) > MOST_VALUES:
        raise ValueError(
            f"{source} holds {len(names)} different texts, more than {MOST_VALUES}; "
            "leave it out (--drop_columns), or merge the rare ones"
        )
    return SchemaColumn("category", values=names, from_data=True)


def classes(values: np.ndarray, source: str) -> Column:
    """Labels as classes, as they are written, in order.

    Raises:
      ValueError: a label is missing or a fraction, or there are too many of them.
    """
    written = column_values.texts(values, source)
    column = encoding.of_names(written, None, source)
    for text in column.categories:
        at = place(written, written == text)
        if text in _NO_LABEL:
            raise ValueError(
                f"{source} lacks a label {at}; leave such rows out, or declare the "
                "class in a schema (`fedsvp schema`)"
            )
        number = column_values.number(text)
        if number is not None and not number.is_integer():
            raise ValueError(f"{source} holds numbers that are no classes {at}")
    if not 2 <= len(column.categories) <= MOST_CLASSES:
        raise ValueError(
            f"{source} holds {len(column.categories)} different values; labels are 2 "
            f"to {MOST_CLASSES} classes"
        )
    return column
