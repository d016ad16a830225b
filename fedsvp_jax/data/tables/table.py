"""Any table with a header: a CSV file, a pandas frame, a Hugging Face data set.

Its schema says what every column is (`schema`, `encoding`). Columns of categories, and
those of at most 64 different whole numbers, are also named columns, so that attributes
can be the categories of one. Without a schema one is drafted from the records, and
every claim is nominal (`draft.py`).
"""

import dataclasses
import re
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedsvp_jax.core.settings import unknown
from fedsvp_jax.data.dataset import Dataset, check_one_client
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import cells, draft, encoding, files, literals, table_file
from fedsvp_jax.data.tables.cells import Columns
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn

NOBODY = "none"  # in the place of a column's name
_SPLIT = "split"  # a column of `train` and `test` divides the rows
_LEAST = 2  # training rows of a client: one to train on, and one to validate on
_DROP = SchemaColumn("drop")
_SHOWN = 20  # clients that a warning names


def load_file(path: Path, settings: TableSettings) -> Dataset:
    """A table in a file, as `from_table` makes it.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is damaged, or the settings name a column that it lacks.
    """
    schema = settings.declared()
    codec = schema.encoding if schema else None
    columns, form = table_file.read_table(path, codec)
    label = settings.label_column or (schema.label if schema else None)
    drop = listed_columns(settings.drop_columns or "", columns)
    if schema is None and form is not None and form.divider == ";":
        features = {k: v for k, v in columns.items() if k not in (label, *drop)}
        draft.written_notation(features, form.divider, str(path))
    test = None
    if settings.test_path is not None:
        test, _ = table_file.read_table(settings.test_path, codec)
    dataset = from_table(
        columns,
        label=label,
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
    stated = (name or other.strip("\"' ") for name, other in matches)
    return list(filter(None, stated))


def load_rows(
    path: Path, schema: Schema
) -> tuple[encoding.Encoded, dict[str, pa.ChunkedArray]]:
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
    columns, _ = table_file.read_table(path, schema.encoding)
    if not len(next(iter(columns.values()))):
        raise ValueError(f"{path} has no rows")
    features = {k for k, column in schema.columns.items() if column.type != "drop"}
    carried = {
        name: cells.texts(column)
        for name, column in columns.items()
        if name not in features
    }
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
        `rows_per_person` rows of each person are kept, drawn once. None: drafted from
        the records.
      test: a table of test examples, of people who agreed that what is scored on them
        is published, with the columns that are features and the label; None divides
        `table`, and no ε covers its test rows.
      test_fraction: part of the rows for the test, where nothing else divides them.
      name: of the data set, in messages.

    Raises:
      ValueError: what is wrong with each column, by name and row.
    """
    dropped: set[str | None] = set(map(literals.normal, drop))
    label, client = (text and literals.normal(text) for text in (label, client))
    declared = schema or Schema({})
    dropped |= {declared.client}
    dropped |= {k for k, column in declared.columns.items() if column.type == "drop"}
    label, client = label or declared.label, client or declared.client
    person = declared.person
    limit = declared.rows_per_person if declared.unit == "person" else None
    test_fraction = declared.test_fraction or test_fraction
    client = None if client == NOBODY else client
    left_out = dropped | {client, person, ""}  # row names have no name
    columns = table_file.columns_of(table, name)
    num_train = _check_lengths(columns, name)
    for column in filter(None, (label, client, person, *drop)):
        if column not in columns:
            raise ValueError(
                f"{name}: " + unknown("a named column", column, tuple(columns))
            )
    if test is not None:
        tested = table_file.columns_of(test, name)
        _check_apart(columns, tested, name)
        columns = _joined(columns, tested, name, optional=left_out)
    if label is None:
        raise ValueError(
            f"{name} needs label_column, one of {', '.join(columns)}, or a schema"
        )
    dropped = left_out | {label}
    clients = cells.distinct(columns[client]) if client is not None else None
    persons = (
        None
        if person is None
        else _persons(columns[person], num_train, f"{name}: column {person}")
    )
    if persons is not None and clients is not None:
        check_one_client(persons[:num_train], clients[1][:num_train], clients[0], name)
    is_test, divides = _split_rows(
        columns,
        None if test is None else num_train,
        test_fraction,
        dropped,
        None if clients is None else clients[1],
        persons,
        name,
    )
    chosen = np.ones(len(is_test), bool)
    if persons is None:
        _warn_of_persons(columns, {label, client}, schema, name)
    elif limit is not None:
        chosen = _chosen_rows(persons, limit)
        if not chosen.all():
            warnings.warn(
                f"{name}: {(~chosen).sum()} of {len(chosen)} rows are left out, since "
                f"of each person at most {limit} stay ([person] rows)",
                stacklevel=2,
            )
    train, test_rows = (np.flatnonzero(part & chosen) for part in (~is_test, is_test))
    if not len(train) or not len(test_rows):
        rows = len(is_test)
        raise ValueError(f"{name} has {rows} rows, too few to train and to test")
    dropped |= divides
    if schema is None:
        schema, wrong = draft.strict(
            columns, ~is_test, label=label, dropped=dropped, source=name
        )
    else:
        schema = dataclasses.replace(schema, client=None)
        schema, wrong = _fit_schema(schema, columns, label, dropped, name)
    labels, writers, writer_names, test_writers = None, None, None, None
    with files.collected(wrong):
        if schema.classes:
            source = f"{name}: column {label}"
            labels = encoding.coded(columns[label], schema.classes, source)
    if clients is not None and client is not None:
        schema = dataclasses.replace(schema, client=client)
        with files.collected(wrong):
            encoding.check_named(columns[client], "client", f"{name}: column {client}")
        names, codes = clients
        present = sorted(set(np.unique(codes[train]).tolist()), key=names.__getitem__)
        if absent := sorted(set(names) - {names[code] for code in present}):
            warnings.warn(
                f"{name}: {len(absent)} of {len(names)} clients train nothing, since "
                f"all their rows are for the test: {', '.join(absent[:_SHOWN])}"
                f"{' …' * (len(absent) > _SHOWN)}",
                stacklevel=2,
            )
        number = np.full(len(names), -1, np.int32)
        number[present] = np.arange(len(present))
        writers, writer_names = number[codes[train]], tuple(names[c] for c in present)
        if test is None:  # a table of test rows may lack the column
            test_writers = number[codes[test_rows]]
    encoded = encoding.encode(schema, columns, name, wrong=wrong)
    inputs, attributes = encoded.inputs, encoded.columns
    assert labels is not None
    if encoded.at_extremes:  # for the console of who has the rows alone
        warnings.warn(
            f"{name}: the bounds of {', '.join(encoded.at_extremes)} are the least and "
            "the largest value of the rows: if they were read off these, no ε is "
            "proved; state what is known without the rows, or write from_data = false "
            "beside bounds that are known so",
            stacklevel=2,
        )
    return Dataset(
        name=name,
        train_inputs=inputs[train],
        train_labels=labels[train],
        test_inputs=inputs[test_rows],
        test_labels=labels[test_rows],
        num_classes=len(schema.classes),
        class_names=schema.classes,
        train_writers=writers,
        writer_names=writer_names,
        test_writers=test_writers,
        columns={k: c._replace(codes=c.codes[train]) for k, c in attributes.items()},
        test_columns={
            k: c._replace(codes=c.codes[test_rows]) for k, c in attributes.items()
        },
        from_records=schema.from_records,
        schema=schema,
        public_test=test is not None,
        train_persons=None if persons is None else persons[train].astype(np.int32),
        rows_per_person=limit,
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


def _persons(column: pa.ChunkedArray, num_train: int, source: str) -> np.ndarray:
    """(rows,) numbers from 0: whose each row is.

    A row of a test table, from `num_train` on, is of another person each.
    """
    encoding.check_named(column, "person", source)
    names, codes = cells.distinct(column)
    persons = np.argsort(sorted(range(len(names)), key=names.__getitem__))[codes]
    rows = np.arange(len(column))
    return np.where(rows < num_train, persons, len(names) + rows)


def _chosen_rows(persons: np.ndarray, limit: int) -> np.ndarray:
    """(rows,) bool: at most so many rows of each person, drawn whatever they hold."""
    order = np.random.default_rng(1).permutation(len(persons))
    return _ranks(persons, np.argsort(order)) < limit


def _ranks(groups: np.ndarray, order: np.ndarray) -> np.ndarray:
    """(rows,) the place of each row in its group, from 0, by rising `order`."""
    by_group = np.lexsort((order, groups))
    ordered = groups[by_group]
    ranks = np.empty(len(groups), int)
    ranks[by_group] = np.arange(len(groups)) - np.searchsorted(ordered, ordered)
    return ranks


def _warn_of_persons(
    columns: Columns,
    dropped: set[str | None],
    schema: Schema | None,
    name: str,
) -> None:
    """Warns of a column that may name persons, some of whom have several rows."""
    if schema is not None and schema.unit != "row":
        return
    for column in columns.keys() - dropped:
        if draft.repeats(column, columns[column]):
            warnings.warn(
                f"{name}: values of column {column} repeat: ε protects one row, so a "
                f'person with several is protected less; [person] column = "{column}" '
                "in the schema makes a person the unit",
                stacklevel=3,
            )


def _fit_schema(
    schema: Schema,
    columns: Columns,
    label: str,
    dropped: set[str | None],
    source: str,
) -> tuple[Schema, list[str]]:
    """The schema for this table, and where the two differ."""
    wrong = []
    if label != schema.label:
        wrong.append(
            f"label_column {label} is not the schema's, {schema.label}; name one alone"
        )
    declared = dropped | schema.columns.keys()
    unknown_to_it = [name for name in columns if name not in declared]
    wrong += [
        f"{source}: column {name} is not in the schema; declare it there, with "
        'type = "drop" to leave it out'
        for name in unknown_to_it
    ]
    schema_columns = {
        name: _DROP if name in dropped and column.type != "drop" else column
        for name, column in schema.columns.items()
    }
    return dataclasses.replace(schema, columns=schema_columns), wrong


def _split_rows(
    columns: Columns,
    num_train: int | None,
    test_fraction: float,
    dropped: set[str | None],
    clients: np.ndarray | None,
    persons: np.ndarray | None,
    source: str,
) -> tuple[np.ndarray, set[str]]:
    """(rows,) bool: whether a row is for the test; and the column that says so, if any.

    Args:
      num_train: the first so many are for training; None divides them.
      dropped: columns that are not read for it.
      clients: (rows,) which client's each row is, or None.
      persons: (rows,) numbers from 0, each of whom is on one side, or None.

    Raises:
      ValueError: a column of the name split says something else, or divides a person.
    """
    rows = len(next(iter(columns.values())))
    for name in columns.keys() - dropped:
        if name.lower() != _SPLIT:
            continue
        if num_train is not None:
            raise ValueError(
                f"{source}: column {name} and the test table both say which rows are "
                f"for the test; leave one out (--drop_columns={name})"
            )
        parts, codes = cells.distinct(columns[name])
        if name == _SPLIT and set(parts) == {"train", "test"}:
            is_test = codes == parts.index("test")
            _check_sides(columns[name], is_test, persons, source)
            return is_test, {_SPLIT}
        other = sorted(set(parts) - {"train", "test"}) or parts
        raise ValueError(
            f"{source}: column {name} holds {files.quoted(other[0])}; a column `split` "
            "must say train or test of each row, and both must occur: write it so, "
            f"rename it, or leave it out (--drop_columns={name})"
        )
    if num_train is not None:
        return np.arange(rows) >= num_train, set()
    if persons is not None:
        number = int(persons.max()) + 1
        order = np.random.default_rng(0).permutation(number)
        return (order < round(test_fraction * number))[persons], set()
    order = np.random.default_rng(0).permutation(rows)
    return _draw_rows(order, round(test_fraction * rows), clients), set()


def _check_sides(
    split: pa.ChunkedArray,
    is_test: np.ndarray,
    persons: np.ndarray | None,
    source: str,
) -> None:
    """Raises ValueError: rows of one person are on both sides."""
    if persons is None:
        return
    both = np.intersect1d(persons[is_test], persons[~is_test])
    if len(both):
        at = cells.place(split, persons == both[0])
        raise ValueError(
            f"{source}: column {_SPLIT} puts {len(both)} persons on both sides, "
            f"the first {at}; put all rows of a person on one side"
        )


def _draw_rows(order: np.ndarray, size: int, clients: np.ndarray | None) -> np.ndarray:
    """(rows,) bool: the rows for the test, the first `size` of an order if possible.

    The last two rows of every client are kept for training, so that every client that
    has two rows trains. Where too few other rows are left, both rows of some clients of
    exactly two are for the test.
    """
    if clients is None:
        return order < size
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


def _check_lengths(columns: Columns, source: str) -> int:
    """The number of rows."""
    lengths = set(map(len, columns.values()))
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"{source} must have columns of one length, at least one row; theirs: "
            f"{sorted(lengths)}"
        )
    return lengths.pop()


def _joined(
    columns: Columns,
    tested: Columns,
    source: str,
    *,
    optional: Collection[str | None],
) -> Columns:
    """The columns of both tables, one below the other.

    A test table may lack the columns of `optional`, which nothing reads of its rows.
    """
    rows = len(next(iter(tested.values()), ()))
    for name in columns.keys() & optional:
        tested[name] = pa.chunked_array([pa.repeat(columns[name][0], rows)])
    if differ := sorted(columns.keys() ^ tested.keys()):
        raise ValueError(
            f"{source}: the test table must have the same columns; "
            f"{', '.join(differ)} is in one of the two alone: add it, or leave it out "
            "(--drop_columns)"
        )
    joined = Columns()
    for name, column in columns.items():
        both = [column, tested[name]]
        if both[0].type != both[1].type:
            both = [cells.texts(part) for part in both]
        joined[name] = pa.chunked_array([c for part in both for c in part.chunks])
    return joined
