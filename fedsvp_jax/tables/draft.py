"""Drafts a schema from the records of a table.

What it takes from them is marked `from_data`. As a file it is a proposal that its
reader confirms (`fedsvp schema`). Where a run on a table has no schema it stands in for
one, and then it is strict: what could be meant in two ways is refused by the encoder.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsvp_jax.data.dataset import Column
from fedsvp_jax.tables import column_values, encoding, files
from fedsvp_jax.tables.column_values import place
from fedsvp_jax.tables.schema import (
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
    """A schema, and what its reader should know of each column."""

    schema: Schema
    notes: dict[str, str]  # by "label", "client" and "columns.NAME"


def proposed(
    columns: Mapping[str, np.ndarray],
    *,
    label: str,
    client: str | None,
    drop: Sequence[str] = (),
    what: str,
    encoding: str = "utf-8",
) -> Draft:
    """The draft that `fedsvp schema` writes, of a table of texts.

    Raises:
      ValueError: the label is none.
    """
    rest = [name for name in columns if name not in (label, client)]
    decimal = _decimal({n: columns[n] for n in rest if n not in drop}, what)
    found, notes = {}, {}
    for name in rest:
        if name in drop:
            found[name] = SchemaColumn("drop")
        elif name == "split":
            continue
        else:
            found[name], note = _proposed(name, columns[name], decimal, what)
            if note:
                notes[f"columns.{name}"] = note
    named = classes(columns[label], f"{what}: column {label}")
    schema = Schema(
        columns=found,
        label=label,
        classes=named.categories,
        classes_from_data=True,
        client=client,
        decimal=decimal,
        encoding=encoding,
        test_fraction=None if "split" in columns else 0.2,
    )
    return Draft(schema, notes)


def _decimal(columns: Mapping[str, np.ndarray], what: str) -> str:
    """The mark before a fraction.

    Raises:
      ValueError: some numbers have a point, and some a comma.
    """
    seen: dict[str, list[str]] = {",": [], ".": []}
    for name, written in columns.items():
        known = np.unique(written).tolist()
        kinds = [column_values.kind(text) for text in known]
        for mark, of in ((",", "comma"), (".", "number")):
            found = [t for t, k in zip(known, kinds, strict=True) if k == of]
            if found := [t for t in found if mark in t and not _THOUSANDS.fullmatch(t)]:
                at = place(written, np.isin(written, found))
                seen[mark].append(f"{name} {at}")
    if seen[","] and seen["."]:
        raise ValueError(
            f"{what}: decimal commas in {'; '.join(seen[','])}, and decimal points in "
            f"{'; '.join(seen['.'])}: write all of them one way, or leave columns out "
            "(--drop_columns)"
        )
    return "," if seen[","] else "."


def guessed(columns: Mapping[str, np.ndarray]) -> tuple[str | None, str | None]:
    """The label and the client column by their names, or None.

    A label that has no such name is the last column of 2 to 10 different values.
    """

    def named(known: Sequence[str]) -> str | None:
        low = {name.lower(): name for name in columns}
        return next((low[name] for name in known if name in low), None)

    label = named(_LABELS)
    if label is None:
        few = [k for k, v in columns.items() if 2 <= len(np.unique(v)) <= 10]
        label = few[-1] if few else None
    client = named(_CLIENTS + _OTHER_CLIENTS)
    return label, None if client == label else client


def _proposed(
    name: str, written: np.ndarray, decimal: str, what: str
) -> tuple[SchemaColumn, str]:
    known, counts = np.unique(written, return_counts=True)
    names = known.tolist()
    kinds = np.array([column_values.kind(text, decimal) for text in names])
    share = {kind: counts[kinds == kind].sum() / len(written) for kind in set(kinds)}
    blank = share.get("missing", 0.0)
    if blank == 1:
        return _LEFT_OUT, "no cell has a value"
    unique = len(written) > _FEW and len(known) == len(written)
    marked = [text for text in names if _MARKED.match(text)]
    hint = f"{files.shown(marked[0])}: a number? write it plainly" if marked else ""
    if unique and (_ID.search(name) or set(kinds) == {"text"}):
        why = hint or "a value of its own in every row: an identifier?"
        return _LEFT_OUT, why
    if share.get("date", 0.0) + blank == 1:
        days = np.array([column_values.days(t) or 0.0 for t in names])
        return _numeric("date", days, counts, kinds == "date", blank)
    odd = [t for t, kind in zip(names, kinds, strict=True) if kind in ("text", "date")]
    numeric = share.get("number", 0.0)
    if numeric > 0 and (not odd or (len(odd) <= _MOST_ODD and numeric + blank >= 0.5)):
        told = [column_values.number(text, decimal) or 0.0 for text in names]
        column, note = _numeric(
            "number", np.array(told), counts, kinds == "number", blank or len(odd)
        )
        if odd:
            shown = ", ".join(map(files.shown, odd))
            note = f"{shown}: a missing number? {note}".rstrip()
            column = SchemaColumn(
                "number",
                column.bounds,
                column.fill,
                tuple(odd),
                log=column.log,
                from_data=True,
            )
        return column, note
    if len(known) > MOST_VALUES:
        why = hint or f"{len(known)} different texts: an identifier?"
        return _LEFT_OUT, why
    found = encoding.of_names(written, None, f"{what}: column {name}").categories
    values = (*(text for text in found if text not in ("", OTHERS)), OTHERS)
    return SchemaColumn("category", values=values, from_data=True), hint


def _numeric(
    type_: str, values: np.ndarray, counts: np.ndarray, usable: np.ndarray, blank: float
) -> tuple[SchemaColumn, str]:
    """Bounds from the least to the largest value; the median fills missing cells."""
    there, of_each = values[usable], counts[usable]
    fill = None
    if blank:
        fill = _quantile(there, of_each, 0.5)
    bounds = low, high = float(there.min()), float(there.max())
    upper = _quantile(there, of_each, 0.9)
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
    what: str,
) -> tuple[Schema, list[str]]:
    """The schema of a table that has none, and what is wrong with the table.

    Bounds are those of the training rows, categories and classes those that occur.

    Args:
      columns: (rows,) values of any type.
      is_train: (rows,) bool.
      label: the column of the class.
      dropped: columns that are no features, the label among them.
      what: the file, in messages.
    """
    found, wrong = {}, []
    try:
        named = classes(columns[label], f"{what}: column {label}").categories
    except ValueError as error:
        named = ()
        wrong.append(str(error))
    for name in columns:
        if name in dropped:
            continue
        try:
            found[name] = _strict(columns[name], is_train, f"{what}: column {name}")
        except ValueError as error:
            wrong.append(str(error))
    return Schema(found, label, named, classes_from_data=True), wrong


def _strict(values: np.ndarray, is_train: np.ndarray, what: str) -> SchemaColumn:
    numbers = column_values.plain_numbers(values, ".")
    written = None if numbers is not None else column_values.texts(values, what)
    if written is not None:
        numbers = column_values.plain_numbers(written, ".")
    if numbers is not None:
        known = numbers[is_train]
        low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
        return SchemaColumn("number", (float(low), float(high)), from_data=True)
    assert written is not None
    kinds = {column_values.kind(text) for text in np.unique(written).tolist()}
    if "text" not in kinds or "number" in kinds:
        return SchemaColumn("number", from_data=True)  # which the encoder refuses
    if (written == "").any():
        raise ValueError(
            f"{what} lacks a text {place(written, written == '')}; fill it in, leave "
            "the column out (--drop_columns), or declare its categories in a schema "
            "(`fedsvp schema`) with * for all others"
        )
    names = encoding.of_names(written, None, what).categories
    if len(names) > MOST_VALUES:
        raise ValueError(
            f"{what} holds {len(names)} different texts, more than {MOST_VALUES}; "
            "leave it out (--drop_columns), or merge the rare ones"
        )
    return SchemaColumn("category", values=names, from_data=True)


def classes(values: np.ndarray, what: str) -> Column:
    """Labels as classes, as they are written, in order.

    Raises:
      ValueError: a label is missing or a fraction, or there are too many of them.
    """
    written = column_values.texts(values, what)
    found = encoding.of_names(written, None, what)
    for text in found.categories:
        at = place(written, written == text)
        if text in _NO_LABEL:
            raise ValueError(
                f"{what} lacks a label {at}; leave such rows out, or declare the class "
                "in a schema (`fedsvp schema`)"
            )
        number = column_values.number(text)
        if number is not None and not number.is_integer():
            raise ValueError(f"{what} holds numbers that are no classes {at}")
    if not 2 <= len(found.categories) <= MOST_CLASSES:
        raise ValueError(
            f"{what} holds {len(found.categories)} different values; labels are 2 to "
            f"{MOST_CLASSES} classes"
        )
    return found
