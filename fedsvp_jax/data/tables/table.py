"""Any table with a header: a CSV file, a pandas frame, a Hugging Face data set.

Its schema says what every column is (`schema`, `encoding`). Columns of categories, and
those of at most 64 different whole numbers, are also named columns, so that attributes
can be the categories of one. Without a schema one is drafted from the records, and
every claim is nominal (`draft.py`).
"""

import dataclasses
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..dataset import MISFIT_SHARES, CellMasks, Dataset, Names, check_one_client
from ..source_settings import TableSettings
from . import (
    cells,
    draft,
    duplicates,
    encoding,
    exchanged,
    files,
    literals,
    row_questions,
    table_file,
)
from .cells import Columns
from .schema import Schema, SchemaColumn

_ColumnNames = set[str | None]  # None: of a role that no column has
NOBODY = "none"  # in the place of a column's name
_SPLIT = "split"  # a column of `train` and `test` divides the rows
_LEAST = 2  # training rows of a client: one to train on, and one to validate on
_FEW = 4  # cells of a client that do not fit, of which it is not asked
_MISFITS = {
    "clamped": "beyond its bounds: another unit there than the schema has",
    "others": "in none of its categories: other codes there than the schema has",
    "missing": "missing, and filled: is it not recorded there, or named otherwise",
}
_LOOKED = "(this looked at the rows: keep it to yourself)"
_MOSTLY = 0.9  # of a client's cells: if so many are missing, it is asked


def load_file(path: Path, settings: TableSettings) -> Dataset:
    """A table in a file, as `from_table` makes it.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is damaged, or the settings name a column that it lacks.
    """
    schema = settings.declared()
    columns, form = table_file.read_table(path, schema)
    drop = listed_columns(settings.drop_columns or "", columns)
    if schema is None and form is not None:
        features = {
            k: v for k, v in columns.items() if k not in (settings.label_column, *drop)
        }
        draft.written_notation(features, form.divider, str(path))
    test = None
    if settings.test_path is not None:
        test, _ = table_file.read_table(settings.test_path, schema)
    dataset = from_table(
        columns,
        label=settings.label_column,
        client=settings.client_column,
        drop=drop,
        schema=schema,
        test=test,
        test_fraction=settings.test_fraction,
        name=str(path),
    )
    return dataclasses.replace(dataset, name="csv")


def listed_columns(listed: str, columns: Collection[str]) -> list[str]:
    """The columns that a flag lists; a name may hold commas, with quotes or without.

    What is no column is listed too, for the caller to refuse.
    """
    names = "|".join(map(re.escape, sorted(filter(None, columns), key=len)[::-1]))
    listed = literals.normal(listed)
    matches = re.findall(rf"""["' ]*(?:({names})["' ]*(?=,|$)|([^,]+))""", listed)
    return list(filter(None, (name or other.strip("\"' ") for name, other in matches)))


def load_rows(
    path: Path, schema: Schema
) -> tuple[encoding.Encoded, dict[str, cells.Cells]]:
    """The rows of a table's file.

    Args:
      path: of the file.
      schema: of the training.

    Returns:
      The rows, and (n,) texts by column of those that are no features, such as an id.

    Raises:
      OSError: the file cannot be read.
      ValueError: what is wrong with the file, by column and row.
    """
    columns, _ = table_file.read_table(path, schema)
    carried = {
        name: cells.texts(column)
        for name, column in columns.items()
        if name not in schema.features
    }
    for name, question in row_questions.questions(schema, columns, schema.client):
        if question:
            warnings.warn(
                f"{path}: column {name}: "
                f"{question.replace(row_questions.STATE, 'leave it blank')} {_LOOKED}",
                stacklevel=2,
            )
    return encoding.encode(schema, columns, str(path), of_model=True), carried


def from_table(
    table: Any,
    *,
    label: str | None = None,
    client: str | None = None,
    drop: Sequence[str] = (),
    schema: Schema | None = None,
    test: Any = None,
    test_fraction: float = 0.2,
    name: str = "table",
) -> Dataset:
    """A table as a `Dataset`.

    Args:
      table: a pandas `DataFrame`, a Hugging Face `datasets.Dataset`, or a mapping of
        column names to arrays.
      label: the column of the class; texts and whole numbers are numbered in order.
        None: the schema's.
      client: the column that says which client's each row is; None: the schema's, if
        any; `NOBODY`: none, whatever the schema says.
      drop: columns that are left out, whatever the schema says of them.
      schema: the declared one. Where it names a column of persons, at most
        `rows_per_person` rows of each person are kept, drawn once. Columns that it
        does not name are ignored, with a warning. None: drafted from the records.
      test: a table of test examples, of people who agreed that what is scored on them
        is published, with the columns that are features and the label; None divides
        `table`, and no ε covers its test rows.
      test_fraction: part of the rows for the test, where nothing else divides them.
      name: of the data set, in messages.

    Raises:
      ValueError: what is wrong with each column, by name and row.
    """
    dropped: _ColumnNames = set(map(literals.normal, drop))
    label, client = (text and literals.normal(text) for text in (label, client))
    declared = schema or Schema({})
    dropped |= declared.columns.keys() - declared.features.keys()
    label, client = label or declared.label, client or declared.client
    person = declared.person
    limit = declared.rows_per_person if declared.unit == "person" else None
    test_fraction = declared.test_fraction or test_fraction
    client = None if client == NOBODY else client
    left_out = dropped | {declared.client, client, person, ""}  # "": row names
    columns = table_file.columns_of(table, name)
    files.check_columns((label, client, person, *drop), columns, name)
    notices = duplicates.questions(columns, declared.unit, person)
    if test is not None:
        tested = table_file.columns_of(test, f"{name}: the test table")
        _check_apart(columns, tested, name)
        columns = _joined(columns, tested, name, left_out, person)
        left_out -= {_SPLIT}
    if label is None:
        raise ValueError(
            f"{name} needs label_column, one of {', '.join(columns)}, or a schema"
        )
    dropped = left_out | {label}
    rows = len(columns[label])
    clients, of_client = cells.of_clients(columns, client)
    persons = None
    if person is not None:
        encoding.check_named(columns[person], "person", f"{name}: column {person}")
        _, persons = cells.distinct(columns[person])
        check_one_client(persons, of_client, clients, name)
    is_test = _split_rows(columns, test_fraction, dropped, of_client, persons, name)
    notices += [
        draft.REPEAT.format(column)
        for column in sorted(columns.keys() - {label, client})
        if declared.unit == "row" and draft.repeats(column, columns[column])
    ]
    chosen = np.ones(rows, bool)
    if persons is not None and limit is not None:
        # At most so many rows of each person, drawn whatever they hold.
        order = np.random.default_rng(1).permutation(rows)
        chosen = _ranks(persons, np.argsort(order)) < limit
        if not chosen.all():
            notices.append(
                f"{(~chosen).sum()} of {rows} rows are left out, since of each person "
                f"at most {limit} stay ([person] rows)"
            )
    train, test_rows = (np.flatnonzero(part & chosen) for part in (~is_test, is_test))
    if not len(train) or not len(test_rows):
        raise ValueError(f"{name} has {rows} rows, too few to train and to test")
    dropped |= {_SPLIT} & columns.keys()  # which says what is for the test
    if schema is None:
        schema, wrong = draft.strict(
            columns, ~is_test, label=label, dropped=dropped, source=name
        )
    else:
        schema, wrong = _fit_schema(schema, columns, label, dropped, notices)
        notices += [
            f"column {column}: {question} {_LOOKED}"
            for column, question in row_questions.questions(schema, columns, client)
            if question
        ]
    schema = dataclasses.replace(schema, client=client)
    labels = writers = writer_names = test_writers = None
    with files.collected(wrong):
        if schema.classes:
            source = f"{name}: column {label}"
            try:
                labels = encoding.coded(columns[label], schema.classes, source)
            except encoding.Misfit as error:
                raise ValueError(
                    f"{error.fault}; write one of the classes "
                    f"{', '.join(map(files.quoted, schema.classes))} in every row, and "
                    "leave rows without one out"
                ) from error
    if client is not None:
        with files.collected(wrong):
            encoding.check_named(columns[client], "client", f"{name}: column {client}")
        writer_names, numbers = _training_clients(clients, of_client[train], notices)
        writers = numbers[of_client[train]]
        if test is None:  # a table of test rows may lack the column
            test_writers = numbers[of_client[test_rows]]
    encoded = encoding.encode(schema, columns, name, wrong=wrong)
    assert labels is not None
    attributes, test_attributes = (
        {k: c._replace(codes=c.codes[part]) for k, c in encoded.columns.items()}
        for part in (train, test_rows)
    )
    # For the console of who has the rows alone.
    if client is not None:
        notices += _misfits(encoded.changed_cells, clients, of_client, train)
        notices += exchanged.questions(
            schema, encoded.inputs, labels, of_client, clients
        )
    if encoded.at_extremes:
        notices.append(
            f"the bounds of {', '.join(encoded.at_extremes)} are the least and "
            "the largest value of the rows, or nearly: if they were read off these, "
            "no ε is proved; state what is known without the rows, or write from_data "
            "= false beside bounds that are known so"
        )
    if schema.shares:
        counts = np.zeros((len(clients) + 1, len(schema.shares)))
        np.add.at(counts, (of_client, labels), 1)
        counts[-1] = counts.sum(0)
        in_order = np.sort(schema.shares)[counts.argsort(1).argsort(1)]
        # ln of how much likelier the rows are by the shares in another order. Of honest
        # clients in R's tables one in a hundred is above 30, of two classes.
        evidence = (counts * np.log(in_order / schema.shares)).sum(1)
        if (swapped := evidence > 10).any():
            whose = files.shortened([*itertools.compress(clients, swapped)])
            notices.append(
                f"the shares of the schema fit {'the rows' if swapped[-1] else whose} "
                f"{'far ' if evidence.max() > 30 * (counts.shape[1] - 1) else ''}"
                "better in another order: "
                "are the classes of the rows swapped, or the shares? This looked "
                "at the rows: keep it to yourself"
            )
    for notice in notices:
        warnings.warn(f"{name}: {notice}", stacklevel=2)
    return Dataset(
        name=name,
        train_inputs=encoded.inputs[train],
        train_labels=labels[train],
        test_inputs=encoded.inputs[test_rows],
        test_labels=labels[test_rows],
        num_classes=len(schema.classes),
        class_names=schema.classes,
        train_writers=writers,
        writer_names=writer_names,
        test_writers=test_writers,
        columns=attributes,
        test_columns=test_attributes,
        from_records=schema.from_records,
        schema=schema,
        public_test=test is not None,
        train_persons=None if persons is None else persons[train],
        rows_per_person=limit,
        changed_cells=encoded.changed_cells,
        extremes=encoded.extremes,
        notices=tuple(notices),
    )


def _training_clients(
    names: list[str], of_rows: np.ndarray, notices: list[str]
) -> tuple[Names, np.ndarray]:
    """The names of clients that train, and (clients,) int32: their numbers, else -1.

    Args:
      names: the clients'.
      of_rows: (n,) which client's each training row is.
      notices: gets one of the clients that do not train.
    """
    numbers = np.full(len(names), -1, np.int32)
    present = np.unique(of_rows)
    numbers[present] = np.arange(len(present))
    if absent := np.delete(names, present).tolist():
        notices.append(
            f"{len(absent)} of {len(names)} clients train nothing, since all "
            f"their rows are for the test: {files.shortened(absent)}"
        )
    return tuple(names[code] for code in present), numbers


def _misfits(
    changed: dict[str, CellMasks],
    names: list[str],
    of_client: np.ndarray,
    train: np.ndarray,
) -> list[str]:
    """What to ask of clients many of whose cells do not fit, a line for each column.

    Args:
      changed: (rows,) bool by column and by what became of the cell.
      names: the clients'.
      of_client: (rows,) which client's each row is.
      train: (n,) the training rows.
    """
    lines, rows = [], np.bincount(of_client[train])
    for column, masks in changed.items():
        for kind in _MISFITS.keys() & masks:
            wrong = np.bincount(of_client[train], masks[kind][train])
            limits = np.maximum(_FEW, MISFIT_SHARES.get(kind, _MOSTLY) * rows)
            if listed := [
                f"{names[n]} ({wrong[n]:.0f} of {rows[n]} cells)"
                for n in np.flatnonzero(wrong > limits)
            ]:
                lines.append(
                    f"column {column} of {files.shortened(listed)}: {_MISFITS[kind]}? "
                    "This looked at the rows: keep it to yourself"
                )
    return lines


def blank_rows(schema: Schema, sizes: Sequence[int]) -> Dataset:
    """Rows of zeros in the place of those that nobody but their client reads.

    Args:
      schema: of all tables.
      sizes: training rows of each client.
    """
    width = sum(column.width for column in schema.columns.values())
    inputs = np.zeros((sum(sizes), width), np.float32)
    labels = np.zeros(len(inputs), np.int32)
    by_person = schema.unit == "person"
    return Dataset(
        "csv",
        inputs,
        labels,
        inputs[:1],
        labels[:1],
        len(schema.classes),
        train_writers=np.repeat(np.arange(len(sizes)), sizes),
        train_persons=np.arange(len(inputs)) if by_person else None,
        rows_per_person=schema.rows_per_person if by_person else None,
        from_records=schema.from_records,
        schema=schema,
    )


def _check_apart(table: Columns, tested: Columns, name: str) -> None:
    """Refuses a test table of the training table's rows, whose scores would be exact.

    By chance about as many test rows are in the training table as training rows are
    in it twice; between that and all of them half is the limit.
    """
    common = [column for column in table if column in tested]
    here, there = (
        Counter(zip(*(cells.texts(t[c]).to_pylist() for c in common), strict=True))
        for t in (table, tested)
    )
    twice = sum(count for count in here.values() if count > 1) / max(here.total(), 1)
    copied = sum(count for row, count in there.items() if row in here)
    if copied and (here == there or copied > (1 + twice) / 2 * there.total()):
        raise ValueError(
            f"{name}: {copied} of the {there.total()} rows of test_data are rows that "
            "clients train on: name rows of other people, who agreed, or leave it out"
        )


def _ranks(groups: np.ndarray, order: np.ndarray) -> np.ndarray:
    """(rows,) the place of each row in its group, from 0, by rising `order`."""
    by_group = np.lexsort((order, groups))
    return np.argsort(by_group) - np.searchsorted(groups[by_group], groups)


def _fit_schema(
    schema: Schema,
    columns: Columns,
    label: str,
    dropped: _ColumnNames,
    notices: list[str],
) -> tuple[Schema, list[str]]:
    """The schema for this table, and where the two differ; `notices` gets what is
    ignored.
    """
    if unnamed := sorted(columns.keys() - dropped - schema.columns.keys()):
        notices.append(
            "columns that the schema does not name are ignored: "
            f"{files.shortened(unnamed)}"
        )
    wrong = [
        f"label_column {label} is not the schema's, {schema.label}; name one alone"
    ] * (label != schema.label)
    left_out = dict.fromkeys(schema.features.keys() & dropped, SchemaColumn("drop"))
    return dataclasses.replace(schema, columns={**schema.columns, **left_out}), wrong


def _split_rows(
    columns: Columns,
    test_fraction: float,
    dropped: _ColumnNames,
    clients: np.ndarray,
    persons: np.ndarray | None,
    source: str,
) -> np.ndarray:
    """(rows,) bool: whether a row is for the test.

    Args:
      dropped: columns that are not read for it.
      clients: (rows,) which client's each row is.
      persons: (rows,) numbers from 0, each of whom is on one side, or None.

    Raises:
      ValueError: a column of the name split says something else, or divides a person.
    """
    name = _split_column(columns, dropped)
    if name is not None:
        parts, codes = cells.distinct(columns[name])
        if name == _SPLIT and set(parts) == {"train", "test"}:
            is_test = codes == parts.index("test")
            if persons is not None and len(
                both := np.intersect1d(persons[is_test], persons[~is_test])
            ):
                raise ValueError(
                    f"{source}: column {_SPLIT} puts {len(both)} persons on both "
                    "sides, the first "
                    f"{cells.place(columns[name], persons == both[0])}; put all rows "
                    "of a person on one side"
                )
            return is_test
        other = sorted(set(parts) - {"train", "test"}) or parts
        raise ValueError(
            f"{source}: column {name} holds {files.quoted(other[0])}; a column `split` "
            "must say train or test of each row, and both must occur: write it so, "
            f"rename it, or leave it out (--drop_columns={name})"
        )
    number = len(clients) if persons is None else int(persons.max()) + 1
    order = np.random.default_rng(0).permutation(number)
    size = round(test_fraction * number)
    if persons is None:
        return _draw_rows(order, size, clients)
    return (order < size)[persons]


def _split_column(columns: Columns, dropped: _ColumnNames) -> str | None:
    return next((k for k in columns.keys() - dropped if k.lower() == _SPLIT), None)


def _draw_rows(order: np.ndarray, size: int, clients: np.ndarray) -> np.ndarray:
    """(rows,) bool: the rows for the test, the first `size` of an order if possible.

    The last two rows of every client are kept for training, so that every client that
    has two rows trains. Where too few other rows are left, both rows of some clients of
    exactly two are for the test.
    """
    counts, is_test = np.bincount(clients), np.zeros(len(order), bool)
    trains = (_ranks(clients, -order) < _LEAST) & (counts[clients] >= _LEAST)
    free = np.flatnonzero(~trains)
    is_test[free[np.argsort(order[free])[:size]]] = True
    short = (size - len(free)) // _LEAST
    if short > 0:
        pairs = np.flatnonzero(counts == _LEAST)
        first = np.full(len(counts), len(order))
        np.minimum.at(first, clients, order)
        is_test |= np.isin(clients, pairs[np.argsort(first[pairs])[:short]])
    return is_test


def _joined(
    columns: Columns,
    tested: Columns,
    source: str,
    optional: _ColumnNames,
    person: str | None,
) -> Columns:
    """The columns of both tables, one below the other, and a column `split`.

    A test table may lack the columns of `optional`, which nothing reads of its rows.
    Each of them is of a person of its own, behind all others.
    """
    if split := _split_column(columns, optional):
        raise ValueError(
            f"{source}: column {split} and the test table both say which rows are "
            f"for the test; leave one out (--drop_columns={split})"
        )
    rows = len(next(iter(tested.values()), ()))
    for name in columns.keys() & optional:
        tested[name] = pa.chunked_array([pa.repeat(columns[name][0], rows)])
    if person is not None:
        tested[person] = pa.chunked_array([[f"\U0010ffff{n}" for n in range(rows)]])
    if differ := sorted(columns.keys() ^ tested.keys()):
        raise ValueError(
            f"{source}: the test table must have the same columns; "
            f"{', '.join(differ)} is in one of the two alone: add it, or leave it out "
            "(--drop_columns)"
        )
    joined = Columns()
    for name, column in columns.items():
        below = tested[name]
        if column.type != below.type:
            column, below = cells.texts(column), cells.texts(below)
        joined[name] = pa.chunked_array(column.chunks + below.chunks)
    joined[_SPLIT] = pa.chunked_array([["train"] * len(column) + ["test"] * rows])
    return joined
