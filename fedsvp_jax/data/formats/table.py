"""Any table with a header: a CSV file, a pandas frame, a Hugging Face data set.

A column of numbers becomes one feature, 2 (x - low) / (high - low) - 1 after x was
clamped to its bounds; a column of texts becomes one feature for each of its texts
(one-hot). Columns of texts, and those of at most 64 different whole numbers, are also
named columns, so that attributes can be the categories of one.

Bounds that nobody names are the least and the largest number of the training rows, and
the texts are those of the table. Both change when a record changes, so a guarantee
takes them as public (`loading.neighbour_assumptions` says so beside it).
"""

import csv
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.formats import column_coding
from fedsvp_jax.settings import Settings, setting, unknown

_MOST_CLASSES = 1000
_NEEDS = ("dataset", ("csv",))
_SPLIT = "split"  # a column of `train` and `test` divides the rows


@dataclasses.dataclass(frozen=True)
class TableSettings(Settings):
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
    column_bounds: str | None = setting(
        None,
        "Public bounds of columns of numbers, as age=17:90,hours=1:99. Default: the "
        "least and largest number of the training rows, which a guarantee then takes "
        "as public.",
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


def read_csv(path: Path) -> dict[str, np.ndarray]:
    """Every column as (rows,) text, without blanks around the values.

    The header names the columns; a comma, a semicolon or a tab divides them, whichever
    the header has most of.

    Raises:
      OSError: it cannot be read.
      ValueError: it is no such file.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            head = handle.readline()
            handle.seek(0)
            divider = max(",;\t", key=head.count)
            header, *rows = list(csv.reader(handle, delimiter=divider)) or [[]]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); it must be a CSV file"
        ) from error
    names = [name.strip() for name in header]
    if not names:
        raise ValueError(f"{path} is empty; its first line must name the columns")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{path} has two columns of the name {twice[0]!r}")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {number}, has {len(row)} values; the header names "
                f"{len(names)}"
            )
    table = np.char.strip(np.asarray(rows, dtype=np.str_).reshape(-1, len(names)))
    return {name: table[:, place] for place, name in enumerate(names)}


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
    columns = read_csv(path)
    if settings.label_column is None:
        raise ValueError(f"dataset csv needs label_column, one of {', '.join(columns)}")
    return from_table(
        columns,
        label=settings.label_column,
        client=settings.client_column,
        drop=_dropped(settings),
        bounds=_bounds(settings.column_bounds or ""),
        test_fraction=settings.test_fraction,
        name="csv",
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
    table, given = read_csv(trained_on), read_csv(path)
    is_test, no_features = _divided(table, None, settings.test_fraction)
    no_features |= {settings.label_column, settings.client_column, *_dropped(settings)}
    bounds = _bounds(settings.column_bounds or "")
    codings = {
        key: column_coding.coding(values, ~is_test, bounds.get(key), f"column {key}")
        for key, values in table.items()
        if key not in no_features
    }
    if lacking := [key for key in codings if key not in given]:
        raise ValueError(f"{path} lacks the column {lacking[0]}")
    if not len(next(iter(given.values()))):
        raise ValueError(f"{path} has no rows")
    features = [
        column_coding.coded(given[key], coding, f"{path}: column {key}")
        for key, coding in codings.items()
    ]
    return np.concatenate(features, axis=1).astype(np.float32)


def _dropped(settings: TableSettings) -> list[str]:
    names = (settings.drop_columns or "").split(",")
    return [name.strip() for name in names if name.strip()]


def _bounds(text: str) -> dict[str, tuple[float, float]]:
    """`age=17:90,hours=1:99` by name.

    Raises:
      ValueError: it is something else.
    """
    found = {}
    for item in filter(None, text.split(",")):
        name, _, ends = item.rpartition("=")
        try:
            low, high = map(float, ends.split(":"))
        except ValueError:
            low = high = np.nan
        if not (name and np.isfinite([low, high]).all() and low < high):
            raise ValueError(
                f"column_bounds must be NAME=LOW:HIGH with commas between them, got "
                f"{item!r}"
            )
        found[name.strip()] = (low, high)
    return found


def from_table(
    table: Any,
    *,
    label: str,
    client: str | None = None,
    drop: Sequence[str] = (),
    bounds: Mapping[str, tuple[float, float]] | None = None,
    image: str | None = None,
    test: Any = None,
    test_fraction: float = 0.2,
    name: str = "table",
) -> Dataset:
    """A table as a `Dataset`.

    Args:
      table: a pandas `DataFrame`, a Hugging Face `datasets.Dataset`, or a mapping of
        column names to arrays.
      label: the column of the class; texts and whole numbers are numbered in order.
      client: the column that says whose each row is, or None.
      drop: columns that are left out.
      bounds: public (low, high) of columns of numbers.
      image: the column of uint8 images, all of one shape; other columns are then no
        features, but may still be attributes.
      test: a table of test examples; None divides `table`.
      test_fraction: part of the rows for the test, where nothing else divides them.
      name: of the data set, in messages.

    Raises:
      ValueError: one sentence that names the column and what is wrong with it.
    """
    columns, num_train = _joined(table, test, name)
    for asked in filter(None, (label, client, image, *drop, *(bounds or {}))):
        if asked not in columns:
            raise ValueError(
                f"{name}: " + unknown("a named column", asked, tuple(columns))
            )
    is_test, dropped = _divided(
        columns, None if test is None else num_train, test_fraction
    )
    dropped |= {label, client, image, *drop}
    train, tested = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    if not len(train) or not len(tested):
        rows = len(is_test)
        raise ValueError(f"{name} has {rows} rows, too few to train and to test")
    labels, class_names = _classes(columns[label], f"{name}: column {label}")
    features, named = [], {}
    for key, values in columns.items():
        if key in dropped:
            continue
        what = f"{name}: column {key}"
        coding = column_coding.coding(values, ~is_test, (bounds or {}).get(key), what)
        features.append(column_coding.coded(values, coding, what))
        column = column_coding.column(values, coding, what)
        if column is not None:
            named[key] = column
    if image is not None:
        inputs = np.stack([np.asarray(one) for one in columns[image]])
        inputs = inputs[..., None] if inputs.ndim == 3 else inputs
    elif features:
        inputs = np.concatenate(features, axis=1).astype(np.float32)
    else:
        raise ValueError(f"{name} has no column but {', '.join(columns)}")
    writers = None
    if client is not None:
        writers = np.unique(columns[client].astype(str), return_inverse=True)[1]
        writers = writers[train].astype(np.int32)
    return Dataset(
        name=name,
        train_inputs=inputs[train],
        train_labels=labels[train],
        test_inputs=inputs[tested],
        test_labels=labels[tested],
        num_classes=len(class_names),
        class_names=class_names,
        train_writers=writers,
        columns={k: c._replace(codes=c.codes[train]) for k, c in named.items()},
        test_columns={k: c._replace(codes=c.codes[tested]) for k, c in named.items()},
    )


def _divided(
    columns: Mapping[str, np.ndarray], num_train: int | None, test_fraction: float
) -> tuple[np.ndarray, set[str | None]]:
    """(rows,) bool: which are for the test; and the column that says so, if any does.

    Args:
      num_train: the first so many are for training; None divides them.
    """
    rows = len(next(iter(columns.values())))
    if num_train is not None:
        return np.arange(rows) >= num_train, set()
    if _SPLIT in columns and set(columns[_SPLIT]) == {"train", "test"}:
        return columns[_SPLIT] == "test", {_SPLIT}
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
        values = list(table[name])
        if values and np.ndim(values[0]) > 0:  # images and other arrays
            whole = np.empty(len(values), object)
            whole[:] = values
        else:
            whole = np.asarray(values)
        found[str(name)] = whole
    return found


def _classes(values: np.ndarray, what: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels as numbers from 0, and the name of each class."""
    numbers = column_coding.as_numbers(values, what)
    if numbers is not None:
        if not np.all(np.rint(numbers) == numbers):
            raise ValueError(f"{what} holds numbers that are no classes")
        values = numbers.astype(np.int64)
    known, labels = np.unique(values, return_inverse=True)
    if not 2 <= len(known) <= _MOST_CLASSES:
        raise ValueError(
            f"{what} holds {len(known)} different values; labels are 2 to "
            f"{_MOST_CLASSES} classes"
        )
    return labels.astype(np.int32), tuple(map(str, known))
