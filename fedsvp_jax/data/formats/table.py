"""Any table with a header: a CSV file, a pandas frame, a Hugging Face data set.

A column of numbers becomes one feature, 2 (x - low) / (high - low) - 1 after x was
clamped to its bounds; a column of texts becomes one feature for each of its texts
(one-hot). Columns of texts, and those of at most 64 different whole numbers, are also
named columns, so that attributes can be the categories of one.

Bounds that nobody declares are the least and the largest number of the training rows,
and categories those of the table. Both change when a record changes, so every claim is
nominal then (`declared`).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.formats import column_coding, csv_file, declared, files
from fedsvp_jax.data.formats.column_coding import Coding, Values
from fedsvp_jax.data.formats.declared import DeclaredSettings
from fedsvp_jax.settings import setting, unknown

_SHOWN = 5  # columns of which an error tells
_MOST_TIMES, _MOST_BYTES = 8, 2**28  # of a file's size, and beyond: its features
_NEEDS = ("dataset", ("csv",))
_SPLIT = "split"  # a column of `train` and `test` divides the rows


@dataclasses.dataclass(frozen=True)
class TableSettings(DeclaredSettings):
    """Table: what the columns of a CSV file are."""

    label_column: str | None = setting(
        None, "The column of the class, texts or whole numbers.", needs=_NEEDS
    )
    client_column: str | None = setting(
        None,
        "The column that says whose each row is (a hospital, a user): one client per "
        "value with --partition=by_writer, then the default. It is no feature.",
        needs=_NEEDS,
    )
    drop_columns: str | None = setting(
        None,
        "Columns that are left out, with commas between them (names, ids).",
        needs=_NEEDS,
    )
    test_fraction: float = setting(
        0.2,
        "Part of the rows that is kept for the test, drawn once and the same for every "
        "seed. A column `split` of train and test decides instead, if there is one.",
        above=0,
        below=1,
        needs=_NEEDS,
    )


def load_csv(path: Path, settings: TableSettings) -> Dataset:
    """A CSV file with a header, as `from_table` makes it.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is damaged, or the settings name a column that it lacks.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"data_dir {path} is not a file; csv expects the path of a CSV file"
        )
    columns = csv_file.read_csv(path)
    if settings.label_column is None:
        raise ValueError(f"dataset csv needs label_column, one of {', '.join(columns)}")
    return from_table(
        columns,
        label=settings.label_column,
        client=settings.client_column,
        drop=_dropped(settings),
        bounds=declared.bounds(settings.column_bounds),
        categories=declared.categories(settings.column_categories),
        test_fraction=settings.test_fraction,
        name="csv",
        most_bytes=_MOST_TIMES * path.stat().st_size + _MOST_BYTES,
    )


def load_rows(path: Path, trained_on: Path, settings: TableSettings) -> np.ndarray:
    """(n, f) float32: the rows of another CSV file as features of the trained table.

    Args:
      path: has the columns of features of `trained_on`; others are left out.
      trained_on, settings: as `load_csv` took them.

    Raises:
      OSError: a file cannot be read.
      ValueError: the file lacks a column, or a column has a text that is not known.
    """
    table, given = csv_file.read_csv(trained_on), csv_file.read_csv(path)
    no_features = {settings.label_column, settings.client_column, *_dropped(settings)}
    is_test, divides = _divided(
        table, None, settings.test_fraction, no_features, str(trained_on)
    )
    kept = [key for key in table if key not in no_features | divides]
    if lacking := [key for key in kept if key not in given]:
        raise ValueError(f"{path} lacks the column {lacking[0]}")
    if not len(next(iter(given.values()))):
        raise ValueError(f"{path} has no rows")
    bounds = declared.bounds(settings.column_bounds)
    names = declared.categories(settings.column_categories)
    features = []
    for key in kept:
        trained, what = f"{trained_on}: column {key}", f"{path}: column {key}"
        _, coding = _coding(table[key], ~is_test, bounds, names, key, trained)
        values, _ = _coding(given[key], ~is_test, bounds, names, key, what, coding)
        features.append(column_coding.coded(values, coding, what))
    return np.concatenate(features, axis=1)


def _dropped(settings: TableSettings) -> list[str]:
    names = (settings.drop_columns or "").split(",")
    return [name.strip() for name in names if name.strip()]


def from_table(
    table: Any,
    *,
    label: str,
    client: str | None = None,
    drop: Sequence[str] = (),
    bounds: Mapping[str, tuple[float, float]] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
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
      client: the column that says whose each row is, or None.
      drop: columns that are left out.
      bounds: public (low, high) of columns of numbers.
      categories: public categories of columns, the label among them; see `declared`.
      image: the column of uint8 images, all of one shape; other columns are then no
        features, but may still be attributes.
      test: a table of test examples; None divides `table`.
      test_fraction: part of the rows for the test, where nothing else divides them.
      name: of the data set, in messages.
      most_bytes: that the features may take.

    Raises:
      ValueError: what is wrong with each column, by name and row.
    """
    columns, num_train = _joined(table, test, name)
    bounds, names = bounds or {}, categories or {}
    for asked in filter(None, (label, client, image, *drop, *bounds, *names)):
        if asked not in columns:
            raise ValueError(
                f"{name}: " + unknown("a named column", asked, tuple(columns))
            )
    dropped = {label, client, image, *drop}
    is_test, divides = _divided(
        columns, None if test is None else num_train, test_fraction, dropped, name
    )
    train, tested = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    if not len(train) or not len(tested):
        rows = len(is_test)
        raise ValueError(f"{name} has {rows} rows, too few to train and to test")
    what, from_records, wrong = f"{name}: column {label}", [], []
    try:
        classes = column_coding.classes(columns[label], names.get(label), what)
        from_records += [] if classes.public else [f"the classes of {label}"]
    except ValueError as error:
        wrong.append(str(error))
    features, named, size = [], {}, 0
    for key in columns:
        if key in dropped | divides:
            continue
        what = f"{name}: column {key}"
        try:
            values, coding = _coding(columns[key], ~is_test, bounds, names, key, what)
            size += 4 * len(is_test) * max(len(coding.texts), 1)
            if size > most_bytes:
                raise ValueError(
                    f"{what} would make more than {most_bytes / 2**30:.1f} GiB of "
                    "features; leave columns of many texts out (--drop_columns)"
                )
            features.append(column_coding.coded(values, coding, what))
            column = column_coding.column(values, coding, what)
        except ValueError as error:
            wrong.append(str(error))
            continue
        if image is None and not coding.public:
            kind = "categories" if coding.texts else "bounds"
            from_records.append(f"the {kind} of {key}")
        if column is not None:
            named[key] = column
    if wrong:
        more = f" (and {len(wrong) - _SHOWN} more)" if len(wrong) > _SHOWN else ""
        raise ValueError("; ".join(wrong[:_SHOWN]) + more)
    if image is not None:
        inputs = np.stack([np.asarray(one) for one in columns[image]])
        inputs = inputs[..., None] if inputs.ndim == 3 else inputs
    elif features:
        inputs = np.concatenate(features, axis=1)
    else:
        raise ValueError(f"{name} has no column but {', '.join(columns)}")
    writers = None
    if client is not None:
        what = f"{name}: column {client}"
        of_row = column_coding.texts(columns[client], what)
        if (of_row == "").any():
            row = int(np.flatnonzero(of_row == "")[0]) + 1
            raise ValueError(f"{what} names no client in row {row} (the first is 1)")
        writers = np.unique(of_row, return_inverse=True)[1][train].astype(np.int32)
    return Dataset(
        name=name,
        train_inputs=inputs[train],
        train_labels=classes.codes[train],
        test_inputs=inputs[tested],
        test_labels=classes.codes[tested],
        num_classes=len(classes.categories),
        class_names=classes.categories,
        train_writers=writers,
        columns={k: c._replace(codes=c.codes[train]) for k, c in named.items()},
        test_columns={k: c._replace(codes=c.codes[tested]) for k, c in named.items()},
        from_records=tuple(from_records),
    )


def _coding(
    given: np.ndarray,
    is_train: np.ndarray,
    bounds: Mapping[str, tuple[float, float]],
    names: Mapping[str, Sequence[str]],
    key: str,
    what: str,
    coding: Coding | None = None,
) -> tuple[Values, Coding]:
    """A column as it was read, and how it is coded unless that is given."""
    if key in names or (coding is not None and coding.texts):
        values = Values(given, None)
        return values, coding or Coding(texts=tuple(names[key]))
    values = column_coding.read(given, what)
    return values, coding or column_coding.coding(
        values, is_train, bounds.get(key), what
    )


def _divided(
    columns: Mapping[str, np.ndarray],
    num_train: int | None,
    test_fraction: float,
    dropped: set[str | None],
    what: str,
) -> tuple[np.ndarray, set[str]]:
    """(rows,) bool: which are for the test; and the column that says so, if any does.

    Args:
      num_train: the first so many are for training; None divides them.
      dropped: columns that say nothing of it.

    Raises:
      ValueError: a column of the name split says something else.
    """
    rows = len(next(iter(columns.values())))
    if num_train is not None:
        return np.arange(rows) >= num_train, set()
    for name in columns.keys() - dropped:
        if name.lower() != _SPLIT:
            continue
        said = column_coding.texts(columns[name], f"{what}: column {name}")
        known = set(np.unique(said).tolist())
        if name == _SPLIT and known == {"train", "test"}:
            return said == "test", {_SPLIT}
        other = sorted(known - {"train", "test"}) or sorted(known)
        raise ValueError(
            f"{what}: column {name} holds {files.shown(other[0])}; a column `split` "
            "must say train or test of each row, and both must occur: write it so, "
            f"rename it, or leave it out (--drop_columns={name})"
        )
    order = np.random.default_rng(0).permutation(rows)
    return order < round(test_fraction * rows), set()


def _joined(table: Any, test: Any, name: str) -> tuple[dict[str, np.ndarray], int]:
    """The columns of both tables, one below the other, and the rows of the first."""
    columns = _columns(table)
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"{name} must have columns of one length, at least one row")
    (num_train,) = lengths
    if test is None:
        return columns, num_train
    more = _columns(test)
    if more.keys() != columns.keys():
        raise ValueError(f"{name}: the test table must have the same columns")
    return {k: np.concatenate([v, more[k]]) for k, v in columns.items()}, num_train


def _columns(table: Any) -> dict[str, np.ndarray]:
    """A table's columns by name; of whatever has names and gives columns by them."""
    names = getattr(table, "column_names", None) or list(table)
    found = {}
    for name in names:
        values = table[name]
        if not (isinstance(values, np.ndarray) and values.ndim == 1):
            values = list(values)
            if {type(one) for one in values} not in ({int}, {float}, {bool}):
                given, values = values, np.empty(len(values), object)
                for row, one in enumerate(given):  # a text, None or an array
                    values[row] = one
        found[str(name)] = np.asarray(values)
    return found
