"""Data sets in memory and on disk, as readers return them."""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

Names = tuple[str, ...]  # of classes, categories or clients
Shape = tuple[int, ...]
Part = tuple[np.ndarray, np.ndarray]  # inputs and labels
CellMasks = dict[str, np.ndarray]  # (rows,) bool by what became of a column's cells
# More than this share of a column's cells: another unit, or other codes?
MISFIT_SHARES = {"clamped": 0.1, "others": 0.5}


def integer_labels(labels: np.ndarray) -> np.ndarray | None:
    """The labels as integers; None if they are not whole numbers."""
    if labels.dtype.kind in "iu":
        return labels
    is_whole = labels.dtype.kind == "f" and np.all(np.rint(labels) == labels)
    if not is_whole or not np.all(np.abs(labels) < 2**31):
        return None
    return labels.astype(np.int64)


def check_finite(values: np.ndarray, kind: str) -> None:
    """Refuses NaN and infinity.

    Args:
      values: numbers of any shape.
      kind: of values, in the message.

    Raises:
      ValueError: how many are not finite, and the index of the first.
    """
    if len(bad := np.argwhere(~np.isfinite(values))):
        raise ValueError(
            f"{kind} hold NaN or infinity ({len(bad)} of {values.size} values, "
            f"first at index {bad[0].tolist()}); all of them must be finite"
        )


def check_one_client(
    persons: np.ndarray, clients: np.ndarray, names: Sequence[str] | None, source: str
) -> None:
    """Refuses a person with rows at several clients; the sentence names no person.

    Args:
      persons: (n,) whose each row is.
      clients: (n,) at which client each row is.
      names: of the clients; None: they are numbered.
      source: the data set, in the message.

    Raises:
      ValueError: how many persons, and two of the clients.
    """
    persons, clients = np.unique(np.stack([persons, clients]), axis=1)
    _, codes, counts = np.unique(persons, False, True, True)
    roams = counts[codes] > 1
    if roams.any():
        places = clients[roams][:2]  # of one person, since they are in order
        words = places if names is None else [names[place] for place in places]
        of_most = roams[clients != np.bincount(clients).argmax()].mean() > 0.5
        numbering = (
            "does each client number its own? Then make the id unique, as hospital and "
            "number in one column; if not, "
        )
        raise ValueError(
            f"{source}: {(counts > 1).sum()} of {len(counts)} persons have rows at "
            f"several clients, the first at {' and '.join(map(str, words))}: no ε "
            "covers them, since no client knows the others' rows; "
            f"{numbering if of_most else ''}"
            "keep the rows that each has at one client and leave out the others"
        )


def _as_features(values: np.ndarray) -> np.ndarray:
    """Floats of any precision as float32; too large ones become infinite."""
    values = np.asarray(values)
    if values.dtype.kind != "f":
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


class Column(NamedTuple):
    """A named, integer-coded property of every training example (Adult's sex)."""

    codes: np.ndarray  # (n,) int32 in [0, len(categories))
    categories: Names
    public: bool = True  # false: the categories are those that the records have


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Training and test examples on the host; lists of numbers become arrays.

    Attributes:
      name: the name that it was loaded by.
      train_inputs: (n, *example_shape) uint8 pixels (H, W, C) or float32 features.
        Floats of another precision are accepted and converted.
      train_labels: (n,) int32 in [0, num_classes). Whole numbers of another type, such
        as int64 or float64, are accepted and converted.
      test_inputs: (m, *example_shape), of the same type as `train_inputs`.
      test_labels: (m,), as `train_labels`.
      num_classes: number of classes; some of them may have no example.
      train_writers: (n,) int32, who wrote each training example, or None.
      writer_names: the name of writer i, where the data name them.
      test_writers: (m,) int32, who wrote each test example, -1 for nobody of
        `writer_names`; or None. Scores by client follow it, and no training does.
      train_persons: (n,) int32, whose each training example is, where one person may
        have several: then all of a person's are for training or for validation.
      rows_per_person: the most examples of one person, a public number, where a person
        is the unit of privacy (P21). The test rows of a table keep to it too.
      class_names: the names of the classes, or None.
      columns: named properties of the training examples.
      test_columns: those of the test examples, where they are known; with the
        categories that `columns` has.
      train_targets: (n, ...) floats or whole numbers, with which a loss of one's own
        compares the model's outputs (`run.train(loss=...)`); None: with the labels.
        With targets, labels only divide the examples (partition, attributes=class).
      test_targets: (m, ...), likewise.
      from_records: the parts of the preprocessing that were read off the records, in
        words. One other record may change them for all records, so every claim is
        nominal where there are any.
      schema: of the table that it was, by which other rows become examples
        (`data.tables.schema.Schema`); or None.
      public_test: whether scores of the test examples may be published, since these
        are a published data set's or of people who agreed. No ε covers test examples.
      changed_cells: of a table's columns: cells that were "clamped" to the bounds,
        "others" that became `*`, "missing" ones that were filled, and those of a
        number or date, such as '"-9"', that may mean a missing one and were clamped. It
        looked at the rows, and is for whoever has them alone.
      extremes: the schema's columns with their least and largest number in the place of
        the bounds; likewise.
      notices: warnings of a table's rows, for whoever has them alone.

    Raises:
      ValueError: a shape, a type or a value is not as described, or two of them
        contradict one another.
    """

    name: str
    train_inputs: np.ndarray
    train_labels: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    num_classes: int
    train_writers: np.ndarray | None = None
    class_names: Names | None = None
    columns: Mapping[str, Column] = dataclasses.field(default_factory=dict)
    test_columns: Mapping[str, Column] = dataclasses.field(default_factory=dict)
    train_targets: np.ndarray | None = None
    test_targets: np.ndarray | None = None
    from_records: Names = ()
    schema: Any = None
    writer_names: Names | None = None
    test_writers: np.ndarray | None = None
    public_test: bool = False
    train_persons: np.ndarray | None = None
    rows_per_person: int | None = None
    changed_cells: Mapping[str, CellMasks] = dataclasses.field(default_factory=dict)
    extremes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notices: Names = ()

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            inputs = _as_features(getattr(self, f"{part}_inputs"))
            if inputs.dtype not in (np.uint8, np.float32):
                raise self._error(
                    f"{part} inputs must be uint8 pixels or floats, got {inputs.dtype};"
                    " convert them with .astype"
                )
            if inputs.ndim < 2 or not len(inputs):
                raise self._error(
                    f"{part} inputs must hold at least one example along the first "
                    f"axis, got the shape {inputs.shape}"
                )
            check_finite(inputs, f"dataset {self.name}: {part} inputs")
            labels = self._as_integers(
                f"{part} labels",
                getattr(self, f"{part}_labels"),
                inputs.shape[:1],
                self.num_classes,
            )
            self._set(f"{part}_inputs", inputs)
            self._set(f"{part}_labels", labels)
        of_train, of_test = (
            f"{inputs.dtype} of the shape {inputs.shape[1:]}"
            for inputs in (self.train_inputs, self.test_inputs)
        )
        if of_train != of_test:
            raise self._error(
                f"training examples are {of_train}, test examples {of_test}; they must "
                "agree"
            )
        if self.class_names and len(self.class_names) != self.num_classes:
            raise self._error(
                f"class_names must name {self.num_classes} classes, got "
                f"{len(self.class_names)}"
            )
        rows = self.train_labels.shape
        for name in ("train_writers", "train_persons"):
            if (values := getattr(self, name)) is not None:
                self._set(name, self._as_integers(name, values, rows))
        if self.rows_per_person is not None:
            if self.train_persons is None:
                raise self._error("rows_per_person needs train_persons")
            largest = np.unique(self.train_persons, return_counts=True)[1].max()
            if self.rows_per_person < largest:
                raise self._error(
                    f"rows_per_person must be at least {largest}, of one person, "
                    f"got {self.rows_per_person}"
                )
        test_rows = self.test_labels.shape
        if self._targets("train", rows) != self._targets("test", test_rows):
            raise self._error(
                "train_targets and test_targets must be of one type and shape, or both "
                "None"
            )
        self._check_columns("columns", "column", rows)
        self._check_columns("test_columns", "test column", test_rows)
        for key, column in self.test_columns.items():
            reference = self.columns.get(key)
            if reference is None or reference.categories != column.categories:
                raise self._error(
                    f"test column {key} must have the categories of column {key}"
                )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _targets(self, part: str, rows: Shape) -> Any:
        """Makes a part's targets float32 or int32; their type and shape, or None."""
        targets = getattr(self, f"{part}_targets")
        if targets is None:
            return None
        targets = _as_features(targets)
        if targets.dtype.kind in "iub":
            targets = targets.astype(np.int32)
        if targets.dtype not in (np.int32, np.float32):
            raise self._error(f"{part} targets must be numbers, got {targets.dtype}")
        if targets.shape[:1] != rows:
            raise self._error(
                f"{part} targets must have {rows[0]} rows, one for each example; got "
                f"the shape {targets.shape}"
            )
        check_finite(targets, f"dataset {self.name}: {part} targets")
        self._set(f"{part}_targets", targets)
        return targets.dtype, targets.shape[1:]

    @property
    def test_clients(self) -> list[str] | None:
        """(m,) the name of each test example's writer, "" for nobody; or None."""
        if self.test_writers is None or self.writer_names is None:
            return None
        names = (*self.writer_names, "")
        return [names[number] for number in self.test_writers]

    def _check_columns(self, field: str, kind: str, rows: Shape) -> None:
        """Makes the codes of all columns int32."""
        columns = {}
        for key, column in getattr(self, field).items():
            codes = self._as_integers(
                f"{kind} {key}", column.codes, rows, len(column.categories)
            )
            columns[key] = column._replace(codes=codes)
        self._set(field, columns)

    def _as_integers(
        self, kind: str, values: np.ndarray, rows: Shape, limit: int = 2**31
    ) -> np.ndarray:
        """Numbers from 0 to `limit` - 1, one for each example, as int32."""
        values = np.asarray(values)
        integers = integer_labels(values)
        if integers is None:
            raise self._error(f"{kind} must be whole numbers, got {values.dtype}")
        if integers.shape != rows:
            raise self._error(
                f"{kind} must have the shape {rows}, one for each example; got "
                f"{integers.shape}"
            )
        low, high = integers.min(), integers.max()
        if low < 0 or high >= limit:
            raise self._error(
                f"{kind} must be from 0 to {limit - 1}, got {low if low < 0 else high}"
            )
        return integers.astype(np.int32, copy=False)

    def _error(self, message: str) -> ValueError:
        return ValueError(f"dataset {self.name}: {message}")

    @property
    def example_shape(self) -> Shape:
        """The shape of one example."""
        return self.train_inputs.shape[1:]

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the content: name, type, shape and bytes of every array."""
        names = (
            "train_inputs",
            "train_labels",
            "test_inputs",
            "test_labels",
            "train_writers",
            "train_targets",
            "test_targets",
            "train_persons",
        )
        arrays = {
            name: array for name in names if (array := getattr(self, name)) is not None
        }
        text = f"num_classes {self.num_classes}"
        if self.rows_per_person is not None:
            text += f"rows_per_person {self.rows_per_person}"
        if self.class_names is not None:
            text += repr(self.class_names)
        for key, column in sorted(self.columns.items()):
            arrays[f"column {key}"] = column.codes
            text += repr((key, column.categories))
        for key, column in sorted(self.test_columns.items()):
            arrays[f"test column {key}"] = column.codes
        digest = hashlib.sha256(text.encode())
        for key, array in arrays.items():
            digest.update(repr((key, array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


class Facts(NamedTuple):
    """The facts that defaults depend on, of a data set that was read or looked into.

    Attributes:
      num_examples: training examples; None where nobody looked.
      of_writers: (W,) training examples of each writer; None without writers.
      categories: of every named column.
      class_names: the names of the classes, or None.
    """

    num_examples: int | None = None
    of_writers: np.ndarray | None = None
    categories: Mapping[str, Names] = MappingProxyType({})
    class_names: Names | None = None


def facts_of(dataset: Dataset) -> Facts:
    """The facts of a data set in memory."""
    writers = dataset.train_writers
    return Facts(
        num_examples=len(dataset.train_labels),
        of_writers=None
        if writers is None
        else np.unique(writers, return_counts=True)[1],
        categories={key: c.categories for key, c in dataset.columns.items()},
        class_names=dataset.class_names,
    )


@dataclasses.dataclass(frozen=True)
class ClientStore:
    """A data set on disk that exceeds the memory, by client: `store` reads it.

    The clients' examples are mapped; all else is in memory.

    Attributes:
      name: the data set that the store was made from.
      train_inputs: (n, *example_shape) uint8 or float32.
      train_labels: (n,) int32 in [0, num_classes).
      clients: (S, 2) int64: each client's first row and number of rows (at least 1).
      digests: (S, 32) uint8: SHA-256 of each client's examples.
      test_inputs: (m, *example_shape).
      test_labels: (m,) int32.
      num_classes: number of classes.
      fingerprint: SHA-256 of the digests and of all that is not the clients'.
      most_copies: the most clients that hold one example.
      from_records: as `Dataset` has it.
      public_test: likewise.
    """

    name: str
    train_inputs: np.ndarray
    train_labels: np.ndarray
    clients: np.ndarray
    digests: np.ndarray
    test_inputs: np.ndarray
    test_labels: np.ndarray
    num_classes: int
    fingerprint: str
    most_copies: int = 1
    from_records: Names = ()
    public_test: bool = False

    # What a data set in memory may have, and a store does not.
    class_names = train_targets = test_targets = schema = None
    test_columns = MappingProxyType[str, Column]({})

    @property
    def example_shape(self) -> Shape:
        """The shape of one example."""
        return self.train_inputs.shape[1:]

    def rows(self, client: int) -> slice:
        """The rows of one client in `train_inputs` and `train_labels`."""
        first, count = self.clients[client].tolist()
        return slice(first, first + count)
