"""Any table with a header: a CSV file, a pandas frame, a Hugging Face data set.

Its schema says what every column is (`schema`, `encoding`). Columns of categories, and
those of at most 64 different whole numbers, are also named columns, so that attributes
can be the categories of one. Without a schema one is drafted from the records, and
every claim is nominal (`draft.py`).
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.core.settings import unknown
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import column_values, csv_file, draft, encoding, files
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn

_MOST_TIMES, _MOST_BYTES = 8, 2**28  # of a file's size, and beyond: its features
NOBODY = "none"  # in the place of a column's name
_SPLIT = "split"  # a column of `train` and `test` divides the rows
_DROP = SchemaColumn("drop")


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


class LoadedRows(NamedTuple):
    """Rows of a file, by the schema of a training.

    Attributes:
      inputs: (n, f) float32 features.
      others: (n,) texts by column, as they are written: columns that are no features,
        such as an id.
      clamped: how many numbers lie beyond the schema's bounds, by column.
    """

    inputs: np.ndarray
    others: Mapping[str, np.ndarray]
    clamped: Mapping[str, int]


def load_rows(path: Path, schema: Schema, rows: np.ndarray | None = None) -> LoadedRows:
    """Rows of a CSV file; by default all of them.

    Args:
      path: of the file.
      schema: of the training.
      rows: (n,) which of them, from 1.

    Raises:
      OSError: the file cannot be read.
      ValueError: what is wrong with the file, by column and row.
    """
    table = csv_file.read_csv(path, schema.encoding)
    if rows is not None:
        table = {name: values[rows - 1] for name, values in table.items()}
    if not len(next(iter(table.values()))):
        raise ValueError(f"{path} has no rows")
    encoded = encoding.encode(schema, table, str(path))
    features = {k for k, column in schema.columns.items() if column.type != "drop"}
    others = {k: values for k, values in table.items() if k not in features}
    return LoadedRows(encoded.inputs, others, encoded.clamped)


def from_table(
    table: Any,
    *,
    label: str | None = None,
    client: str | None = None,
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
      client: the column that says whose each row is; None: the schema's, if any;
        `NOBODY`: none, whatever the schema says.
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
        dropped |= {schema.client}
        label, client = label or schema.label, client or schema.client
        schema = dataclasses.replace(schema, client=None)
        dropped |= {k for k, column in schema.columns.items() if column.type == "drop"}
        test_fraction = schema.test_fraction or test_fraction
    client = None if client == NOBODY else client
    dropped |= {client}
    columns, num_train = _join_tables(table, test, name, optional=dropped)
    for column in filter(None, (label, client, image, *drop)):
        if column not in columns:
            raise ValueError(
                f"{name}: " + unknown("a named column", column, tuple(columns))
            )
    if label is None:
        raise ValueError(f"{name}: a label must be named, one of {', '.join(columns)}")
    dropped |= {label, image}
    is_test, divides = _split_rows(
        columns, None if test is None else num_train, test_fraction, dropped, name
    )
    train, test_rows = np.flatnonzero(~is_test), np.flatnonzero(is_test)
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
    classes, writers, writer_names = None, None, None
    try:
        if schema.classes:
            source = f"{name}: column {label}"
            written = column_values.texts(columns[label], source)
            classes = encoding.of_names(written, schema.classes, source)
    except ValueError as error:
        wrong.append(str(error))
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
    features = any(column.type != "drop" for column in schema.columns.values())
    if features:
        inputs, attributes, _ = encoding.encode(
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
        columns={k: c._replace(codes=c.codes[train]) for k, c in attributes.items()},
        test_columns={
            k: c._replace(codes=c.codes[test_rows]) for k, c in attributes.items()
        },
        from_records=described.from_records,
        schema=schema if image is None else None,
        public_test=test is not None,
        test_rows=test_rows + 1 - (0 if test is None else num_train),
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
) -> tuple[np.ndarray, set[str]]:
    """(rows,) bool: whether a row is for the test; and the column that says so, if any.

    Args:
      num_train: the first so many are for training; None divides them.
      dropped: columns that are not read for it.

    Raises:
      ValueError: a column of the name split says something else.
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
            return parts == "test", {_SPLIT}
        other = sorted(distinct - {"train", "test"}) or sorted(distinct)
        raise ValueError(
            f"{source}: column {name} holds {files.quoted(other[0])}; a column `split` "
            "must say train or test of each row, and both must occur: write it so, "
            f"rename it, or leave it out (--drop_columns={name})"
        )
    if num_train is not None:
        return np.arange(rows) >= num_train, set()
    order = np.random.default_rng(0).permutation(rows)
    return order < round(test_fraction * rows), set()


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
