"""Any table with a header: a CSV file, a pandas frame, a Hugging Face data set.

Its schema says what every column is (`schema`, `encoding`). Columns of categories, and
those of at most 64 different whole numbers, are also named columns, so that attributes
can be the categories of one. Without a schema one is drafted from the records, and
every claim is nominal (`draft.py`).
"""

import dataclasses
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedsvp_jax.core.settings import unknown
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import cells, draft, encoding, files, table_file
from fedsvp_jax.data.tables.cells import Columns
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn

_MOST_TIMES, _MOST_BYTES = 8, 2**28  # of a file's size, and beyond: its features
_SPLIT = "split"  # a column of `train` and `test` divides the rows
_LEAST = 2  # training rows of a client: one to train on, and one to validate on
_DROP = SchemaColumn("drop")


def load_file(path: Path, settings: TableSettings) -> Dataset:
    """A table in a file, as `from_table` makes it.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is damaged, or the settings name a column that it lacks.
    """
    schema = settings.declared()
    size = _size(path, "data_dir")
    if settings.test_path is not None:
        size += _size(settings.test_path, "test_data")
    codec = schema.encoding if schema else None
    columns, form = table_file.read_table(path, codec)
    label = settings.label_column or (schema.label if schema else None)
    if label is None:
        raise ValueError(
            f"dataset csv needs label_column, one of {', '.join(columns)}, or a schema"
        )
    drop = named(settings.drop_columns or "", columns)
    if schema is None and form is not None and form.divider == ";":
        features = {k: v for k, v in columns.items() if k not in (label, *drop)}
        draft.written_notation(features, form.divider, str(path))
    test = None
    if settings.test_path is not None:
        test, _ = table_file.read_table(settings.test_path, codec)
    return from_table(
        columns,
        label=label,
        client=settings.client_column,
        drop=drop,
        schema=schema,
        test=test,
        test_fraction=settings.test_fraction,
        name="csv",
        most_bytes=_MOST_TIMES * size + _MOST_BYTES,
    )


def _size(path: Path, setting: str) -> int:
    if not path.is_file():
        raise FileNotFoundError(
            f"{setting} {path} is not a file; csv expects the path of a table"
        )
    return path.stat().st_size


def named(listed: str, columns: Collection[str]) -> list[str]:
    """The columns that a flag lists; a name may hold commas, with quotes or without.

    What is no column is listed too, for the caller to refuse.
    """
    names, words = [], listed.split(",")
    while words:
        ends = range(len(words), 0, -1)
        tried = {end: cells.normal(",".join(words[:end])) for end in ends}
        plain = {end: name.strip("\"'") for end, name in tried.items()}
        end = next((end for end in ends if plain[end] in columns), 1)
        names.append(plain[end])
        words = words[end:]
    return [name for name in names if name]


def load_rows(path: Path, schema: Schema) -> np.ndarray:
    """(n, f) float32: the rows of a table as features, by the schema of a training.

    Raises:
      OSError: the file cannot be read.
      ValueError: what is wrong with the file, by column and row.
    """
    columns, _ = table_file.read_table(path, schema.encoding)
    rows = len(next(iter(columns.values())))
    if not rows:
        raise ValueError(f"{path} has no rows")
    parts = [np.arange(rows)]
    return encoding.encode(schema, columns, str(path), parts=parts).inputs[0]


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
      client: the column that says whose each row is; None: the schema's, if any.
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
    dropped: set[str | None] = set(map(cells.normal, drop))
    label, client = (text and cells.normal(text) for text in (label, client))
    if schema is not None:
        label, client = label or schema.label, client or schema.client
        dropped |= {k for k, column in schema.columns.items() if column.type == "drop"}
        test_fraction = schema.test_fraction or test_fraction
    left_out = dropped | {client}
    tables = [table] if test is None else [table, test]
    pixels = [one for part in tables for one in (part[image] if image else ())]
    columns = table_file.columns_of(table, name, image)
    num_train = _check_lengths(columns, name)
    for column in filter(None, (label, client, *drop)):
        if column not in columns:
            raise ValueError(
                f"{name}: " + unknown("a named column", column, tuple(columns))
            )
    if test is not None:
        tested = table_file.columns_of(test, name, image)
        columns = _joined(columns, tested, name, optional=left_out)
    if label is None:
        raise ValueError(f"{name}: a label must be named, one of {', '.join(columns)}")
    dropped = left_out | {label}
    clients = cells.distinct(columns[client]) if client is not None else None
    is_test, divides = _split_rows(
        columns,
        None if test is None else num_train,
        test_fraction,
        dropped,
        None if clients is None else clients[1],
        name,
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
    with encoding.collected(wrong):
        if schema.classes:
            source = f"{name}: column {label}"
            classes = encoding.of_names(columns[label], schema.classes, source)
    if clients is not None and client is not None:
        schema = dataclasses.replace(schema, client=client)
        with encoding.collected(wrong):
            encoding.check_clients(columns[client], f"{name}: column {client}")
        names, codes = clients[0], clients[1][train]
        present = sorted(set(np.unique(codes).tolist()), key=names.__getitem__)
        rank = np.zeros(len(names), np.int32)
        rank[present] = np.arange(len(present))
        writers, writer_names = rank[codes], tuple(names[code] for code in present)
    features = any(column.type != "drop" for column in schema.columns.values())
    parts = (train, test_rows)
    if features:
        inputs, attributes = encoding.encode(
            schema, columns, name, parts=parts, most_bytes=most_bytes, wrong=wrong
        )
    encoding.refuse(wrong)
    if image is not None:
        images = np.stack([np.asarray(one) for one in pixels])
        images = images[..., None] if images.ndim == 3 else images
        inputs = [images[part] for part in parts]
        attributes = attributes if features else {}
    elif not features:
        raise ValueError(f"{name} has no column but {', '.join(columns)}")
    assert classes is not None
    described = schema if image is None else dataclasses.replace(schema, columns={})
    return Dataset(
        name=name,
        train_inputs=inputs[0],
        train_labels=classes.codes[train],
        test_inputs=inputs[1],
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
    source: str,
) -> tuple[np.ndarray, set[str]]:
    """(rows,) bool: whether a row is for the test; and the column that says so, if any.

    Args:
      num_train: the first so many are for training; None divides them.
      dropped: columns that are not read for it.
      clients: (rows,) whose each row is, or None.

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
        parts, codes = cells.distinct(columns[name])
        if name == _SPLIT and set(parts) == {"train", "test"}:
            return codes == parts.index("test"), {_SPLIT}
        other = sorted(set(parts) - {"train", "test"}) or parts
        raise ValueError(
            f"{source}: column {name} holds {files.quoted(other[0])}; a column `split` "
            "must say train or test of each row, and both must occur: write it so, "
            f"rename it, or leave it out (--drop_columns={name})"
        )
    if num_train is not None:
        return np.arange(rows) >= num_train, set()
    order = np.random.default_rng(0).permutation(rows)
    return _drawn(order, round(test_fraction * rows), clients), set()


def _drawn(order: np.ndarray, size: int, clients: np.ndarray | None) -> np.ndarray:
    """(rows,) bool: the first rows of an order, but the last two of every client.

    So whoever has two rows trains. Where too few others are left, all rows of some
    clients of two are for the test.
    """
    is_test = order < size
    if clients is None:
        return is_test
    counts = np.bincount(clients)
    if np.bincount(clients[~is_test], minlength=len(counts)).min() >= _LEAST:
        return is_test
    by_client = np.lexsort((-order, clients))
    rank = np.empty(len(order), np.int64)
    starts = counts.cumsum() - counts
    rank[by_client] = np.arange(len(order)) - np.repeat(starts, counts)
    kept = (rank < _LEAST) & (counts[clients] >= _LEAST)
    is_test[:] = False
    free = np.flatnonzero(~kept)
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
    if len(lengths) > 1 or 0 in lengths:
        raise ValueError(f"{source} must have columns of one length, at least one row")
    return lengths.pop() if lengths else 0


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
    whole = Columns()
    for name, column in columns.items():
        both = [column, tested[name]]
        if both[0].type != both[1].type:
            both = [cells.texts(part) for part in both]
        whole[name] = pa.chunked_array([c for part in both for c in part.chunks])
    return whole
