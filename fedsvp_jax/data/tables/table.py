"""Any table with a header: a CSV file, a pandas frame, a Hugging Face data set.

Its schema says what every column is (`schema`, `encoding`). Columns of categories, and
those of at most 64 different whole numbers, are also named columns, so that attributes
can be the categories of one. Without a schema one is drafted from the records, and
every claim is nominal (`draft.py`).
"""

import dataclasses
import math
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.core.settings import unknown
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import column_values, csv_file, draft, encoding, files
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn

_MOST_TIMES, _MOST_BYTES = 8, 2**28  # of a file's size, and beyond: its features
_SPLIT = "split"  # a column of `train` and `test` divides the rows
_DROP = SchemaColumn("drop")
_PERSON = re.compile(
    r"(^|[ _.-])(id|mrn|uuid|patient|person|subject|participant)([ _.-]|$)", re.I
)
_FEW, _MOST_ROWS = 20, 50  # values of such a column; rows for each of them, at most


def load_csv(path: Path, settings: TableSettings) -> Dataset:
    """A CSV file with a header, as `from_table` makes it.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is damaged, or the settings name a column that it lacks.
    """
    schema = settings.declared()
    columns, test = _read(path, "data_dir", schema), None
    size = path.stat().st_size
    if settings.test_path is not None:
        test = _read(settings.test_path, "test_data", schema)
        size += settings.test_path.stat().st_size
    label = settings.label_column or (schema.label if schema else None)
    if label is None:
        raise ValueError(
            f"dataset csv needs label_column, one of {', '.join(columns)}, or a schema"
        )
    return from_table(
        columns,
        label=label,
        client=settings.client_column,
        drop=settings.dropped,
        schema=schema,
        test=test,
        test_fraction=settings.test_fraction,
        name="csv",
        most_bytes=_MOST_TIMES * size + _MOST_BYTES,
    )


def _read(path: Path, setting: str, schema: Schema | None) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise FileNotFoundError(
            f"{setting} {path} is not a file; csv expects the path of a CSV file"
        )
    return csv_file.read_csv(path, schema.encoding if schema else None)


def load_rows(path: Path, schema: Schema) -> np.ndarray:
    """(n, f) float32: the rows of a CSV file as features, by the schema of a training.

    Raises:
      OSError: the file cannot be read.
      ValueError: what is wrong with the file, by column and row.
    """
    table = csv_file.read_csv(path, schema.encoding)
    if not len(next(iter(table.values()))):
        raise ValueError(f"{path} has no rows")
    return encoding.encode(schema, table, str(path)).inputs


def from_table(
    table: Any,
    *,
    label: str | None = None,
    client: str | None = None,
    person: str | None = None,
    rows_per_person: int | None = None,
    drop: Sequence[str] = (),
    schema: Schema | None = None,
    image: str | None = None,
    test: Any = None,
    test_fraction: float = 0.2,
    name: str = "table",
    most_bytes: float = math.inf,
) -> Dataset:
    """A table as a `Dataset`.

    Args:
      table: a pandas `DataFrame`, a Hugging Face `datasets.Dataset`, or a mapping of
        column names to arrays.
      label: the column of the class; texts and whole numbers are numbered in order.
        None: the schema's.
      client: the column that says which client's each row is; None: the schema's, if
        any.
      person: the column that says whose each row is; None: the schema's, if any. A
        person is the unit of privacy then, unless the schema's is a client.
      rows_per_person: so many rows of a person are kept, drawn once; None: the
        schema's, else 1.
      drop: columns that are left out, whatever the schema says of them.
      schema: the declared one; None: drafted from the records.
      image: the column of uint8 images, all of one shape; other columns are then no
        features, but may still be attributes.
      test: a table of test examples, of people who agreed that what is scored on them
        is published, with the columns that are features and the label; None divides
        `table`, and no ε covers its test rows.
      test_fraction: part of the rows for the test, where nothing else divides them.
      name: of the data set, in messages.
      most_bytes: that the features may take.

    Raises:
      ValueError: what is wrong with each column, by name and row.
    """
    dropped: set[str | None] = {*drop}
    if schema is not None:
        label, client = label or schema.label, client or schema.client
        person = person or schema.person
        rows_per_person = rows_per_person or schema.rows_per_person
        dropped |= {k for k, column in schema.columns.items() if column.type == "drop"}
        test_fraction = schema.test_fraction or test_fraction
    if person is None and rows_per_person is not None and schema is None:
        raise ValueError(f"{name}: rows_per_person needs person, a column")
    dropped |= {client, person}
    columns, num_train = _join_tables(table, test, name, optional=dropped)
    for column in filter(None, (label, client, person, image, *drop)):
        if column not in columns:
            raise ValueError(
                f"{name}: " + unknown("a named column", column, tuple(columns))
            )
    if label is None:
        raise ValueError(f"{name}: a label must be named, one of {', '.join(columns)}")
    dropped |= {label, image}
    persons = _persons(columns, person, num_train, name)
    is_test, divides = _split_rows(
        columns,
        None if test is None else num_train,
        test_fraction,
        dropped,
        name,
        persons,
    )
    chosen = np.ones(len(is_test), bool)
    if person is None:
        _warn_of_persons(columns, {label, client, image}, schema, name)
    elif schema is None or schema.unit != "client":
        rows_per_person = rows_per_person or 1
        chosen = _chosen_rows(persons, rows_per_person)
        if not chosen.all():
            warnings.warn(
                f"{name}: {(~chosen).sum()} of {len(chosen)} rows are left out, since "
                f"{rows_per_person} of each person are kept ([person] rows)",
                stacklevel=2,
            )
    else:
        rows_per_person = None
    train, test_rows = (
        np.flatnonzero(~is_test & chosen),
        np.flatnonzero(is_test & chosen),
    )
    if not len(train) or not len(test_rows):
        rows = len(is_test)
        raise ValueError(f"{name} has {rows} rows, too few to train and to test")
    dropped |= divides
    if schema is None:
        schema, wrong = draft.strict(
            columns, ~is_test, label=label, dropped=dropped, source=name
        )
    else:
        schema, wrong = _fit_schema(schema, columns, label, dropped, name)
    classes, writers, writer_names, test_writers = None, None, None, None
    try:
        if schema.classes:
            source = f"{name}: column {label}"
            written = column_values.texts(columns[label], source)
            classes = encoding.of_names(written, schema.classes, source)
    except ValueError as error:
        wrong.append(str(error))
    if person is not None:
        unit = "client" if schema.unit == "client" else "person"
        schema = dataclasses.replace(
            schema, person=person, unit=unit, rows_per_person=rows_per_person or 1
        )
    if client is not None:
        schema = dataclasses.replace(schema, client=client)
        source = f"{name}: column {client}"
        of_row = column_values.texts(columns[client], source)
        if (of_row == "").any():
            at = column_values.place(of_row, of_row == "")
            wrong.append(
                f"{source} names no client {at}; name one, or leave the row out"
            )
        names, writers = np.unique(of_row[train], return_inverse=True)
        writers, writer_names = writers.astype(np.int32), tuple(names.tolist())
        if test is None:  # a table of test rows may lack the column
            places = {text: number for number, text in enumerate(writer_names)}
            numbers = [places.get(text, -1) for text in of_row[test_rows].tolist()]
            test_writers = np.array(numbers, np.int32)
    features = any(column.type != "drop" for column in schema.columns.values())
    if features:
        inputs, attributes = encoding.encode(
            schema, columns, name, most_bytes=most_bytes, wrong=wrong
        )
    encoding.refuse(wrong)
    if image is not None:
        inputs = np.stack([np.asarray(pixels) for pixels in columns[image]])
        inputs = inputs[..., None] if inputs.ndim == 3 else inputs
        attributes = attributes if features else {}
    elif not features:
        raise ValueError(f"{name} has no column but {', '.join(columns)}")
    assert classes is not None
    described = schema if image is None else dataclasses.replace(schema, columns={})
    return Dataset(
        name=name,
        train_inputs=inputs[train],
        train_labels=classes.codes[train],
        test_inputs=inputs[test_rows],
        test_labels=classes.codes[test_rows],
        num_classes=len(classes.categories),
        class_names=classes.categories,
        train_writers=writers,
        writer_names=writer_names,
        test_writers=test_writers,
        columns={k: c._replace(codes=c.codes[train]) for k, c in attributes.items()},
        test_columns={
            k: c._replace(codes=c.codes[test_rows]) for k, c in attributes.items()
        },
        from_records=described.from_records,
        schema=schema if image is None else None,
        public_test=test is not None,
        train_persons=None if person is None else persons[train].astype(np.int32),
        rows_per_person=None if person is None else rows_per_person,
    )


def _persons(
    columns: Mapping[str, np.ndarray], person: str | None, num_train: int, name: str
) -> np.ndarray:
    """(rows,) numbers from 0: whose each row is; without a column, of another each.

    So is a row of a test table, from `num_train` on.
    """
    rows = np.arange(len(next(iter(columns.values()))))
    if person is None:
        return rows
    source = f"{name}: column {person}"
    texts = column_values.texts(columns[person], source)
    if (texts == "").any():
        at = column_values.place(texts, texts == "")
        raise ValueError(
            f"{source} names no person {at}; name one, or leave the row out"
        )
    names, persons = np.unique(texts, return_inverse=True)
    return np.where(rows < num_train, persons, len(names) + rows)


def _chosen_rows(persons: np.ndarray, limit: int) -> np.ndarray:
    """(rows,) bool: at most so many rows of each person, drawn whatever they hold."""
    order = np.random.default_rng(1).permutation(len(persons))
    order = order[np.argsort(persons[order], kind="stable")]
    ordered = persons[order]
    place = np.arange(len(persons)) - np.searchsorted(ordered, ordered)
    chosen = np.empty(len(persons), bool)
    chosen[order] = place < limit
    return chosen


def _warn_of_persons(
    columns: Mapping[str, np.ndarray],
    dropped: set[str | None],
    schema: Schema | None,
    name: str,
) -> None:
    """Warns of a column that may name persons, some of whom have several rows."""
    if schema is not None and schema.unit != "row":
        return
    for column in columns.keys() - dropped:
        if not _PERSON.search(column):
            continue
        texts = column_values.texts(columns[column], f"{name}: column {column}")
        values, counts = np.unique(texts, return_counts=True)
        if _FEW < len(values) < counts.sum() <= _MOST_ROWS * len(values):
            warnings.warn(
                f"{name}: column {column} has {len(values)} values in {counts.sum()} "
                "rows: ε protects one row, so a person with several is protected less; "
                f'[person] column = "{column}" in the schema makes a person the unit',
                stacklevel=3,
            )


def _fit_schema(
    schema: Schema,
    columns: Mapping[str, np.ndarray],
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
    unknown_to_it = [k for k in columns if k not in dropped | schema.columns.keys()]
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
    columns: Mapping[str, np.ndarray],
    num_train: int | None,
    test_fraction: float,
    dropped: set[str | None],
    source: str,
    persons: np.ndarray,
) -> tuple[np.ndarray, set[str]]:
    """(rows,) bool: whether a row is for the test; and the column that says so, if any.

    Args:
      num_train: the first so many are for training; None divides them.
      dropped: columns that are not read for it.
      persons: (rows,) numbers from 0, each of whom is on one side.

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
        parts = column_values.texts(columns[name], f"{source}: column {name}")
        distinct = set(np.unique(parts).tolist())
        if name == _SPLIT and distinct == {"train", "test"}:
            is_test = parts == "test"
            both = np.intersect1d(persons[is_test], persons[~is_test])
            if len(both):
                at = column_values.place(parts, persons == both[0])
                raise ValueError(
                    f"{source}: column {name} puts {len(both)} persons on both sides, "
                    f"the first {at}; put all rows of a person on one side"
                )
            return is_test, {_SPLIT}
        other = sorted(distinct - {"train", "test"}) or sorted(distinct)
        raise ValueError(
            f"{source}: column {name} holds {files.quoted(other[0])}; a column `split` "
            "must say train or test of each row, and both must occur: write it so, "
            f"rename it, or leave it out (--drop_columns={name})"
        )
    if num_train is not None:
        return np.arange(rows) >= num_train, set()
    number = int(persons.max()) + 1
    order = np.random.default_rng(0).permutation(number)
    return (order < round(test_fraction * number))[persons], set()


def _join_tables(
    table: Any, test: Any, name: str, *, optional: Collection[str | None]
) -> tuple[dict[str, np.ndarray], int]:
    """The columns of both tables, one below the other, and the rows of the first.

    A test table may lack the columns of `optional`, which nothing reads of its rows.
    """
    columns = _columns(table)
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"{name} must have columns of one length, at least one row")
    (num_train,) = lengths
    if test is None:
        return columns, num_train
    test_columns = _columns(test)
    rows = len(next(iter(test_columns.values()), ()))
    for left_out in columns.keys() & optional:
        test_columns[left_out] = columns[left_out][:1].repeat(rows)
    if differ := sorted(columns.keys() ^ test_columns.keys()):
        raise ValueError(
            f"{name}: the test table must have the same columns; "
            f"{', '.join(differ)} is in one of the two alone: add it, or leave it out "
            "(--drop_columns)"
        )
    return {
        k: np.concatenate([v, test_columns[k]]) for k, v in columns.items()
    }, num_train


def _columns(table: Any) -> dict[str, np.ndarray]:
    """A table's columns by name, of any object that maps names to columns."""
    names = getattr(table, "column_names", None) or list(table)
    arrays = {}
    for name in names:
        values = table[name]
        if not (isinstance(values, np.ndarray) and values.ndim == 1):
            values = list(values)
            if {type(cell) for cell in values} not in ({int}, {float}, {bool}):
                cells, values = values, np.empty(len(values), object)
                for row, cell in enumerate(cells):  # a text, None or an array
                    values[row] = cell
        arrays[str(name)] = np.asarray(values)
    return arrays
