"""Anyone's data: one .npz file of arrays.

`--test_data` may name another file, whose `x_test` and `y_test` then count alone.
`x_train` and `x_test` hold uint8 pixels, (n, H, W) or (n, H, W, C), or floats of
any shape. `y_train` and `y_test` hold whole numbers from 0. `writer_train` and any
number of `column_<name>_train` are optional; they hold one integer or text per
training example.
"""

from pathlib import Path

import numpy as np

from fedsvp_jax.core.settings import unknown
from fedsvp_jax.data.dataset import (
    Column,
    Dataset,
    Facts,
    RowSource,
    as_features,
    examples_of,
    integer_labels,
    non_finite,
)
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import files

_TRAIN, _TEST = ("x_train", "y_train"), ("x_test", "y_test")


def _arrays(
    path: Path,
    settings: TableSettings,
    scratch: Path | None = None,
    *,
    without: tuple[str, ...] = (),
) -> dict[str, np.ndarray]:
    """`_read_arrays` of the file, and of `test_data` where it is named."""
    if settings.test_path is None:
        return _read_arrays(path, (*_TRAIN, *_TEST), scratch, without=without)
    tested = _read_arrays(settings.test_path, _TEST, without=without)
    arrays = _read_arrays(path, _TRAIN, scratch, without=(*_TEST, *without))
    return arrays | {key: tested[key] for key in _TEST if key in tested}


def _read_arrays(
    path: Path,
    required: tuple[str, ...],
    scratch: Path | None = None,
    *,
    without: tuple[str, ...] = (),
) -> dict[str, np.ndarray]:
    """All arrays but those of `without`, which stay unread.

    With a folder `scratch`, `x_train` is unpacked there and mapped.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not a file; npz expects the path of an .npz file"
        )
    try:
        # np.load leaves a file that it opened itself, and cannot read, open.
        with (
            path.open("rb") as handle,
            np.load(handle, allow_pickle=False) as archive,
        ):
            names = set(archive.files)
            size = sum(member.file_size for member in archive.zip.infolist())
            if size > files.most_bytes(path.stat().st_size):
                raise ValueError(
                    f"it unpacks to {size / 2**30:.1f} GiB, which its size does not "
                    "justify; write it by numpy.savez, without compression"
                )
            unread = {*without, "x_train"} if scratch else {*without}
            arrays = {key: archive[key] for key in names - unread}
            if scratch and "x_train" in archive.files:
                unpacked = archive.zip.extract("x_train.npy", scratch)
                arrays["x_train"] = np.load(unpacked, mmap_mode="r", allow_pickle=False)
    # zipfile and numpy answer damage with some ten types of error.
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read ({files.reason(error)}); it must be an .npz file "
            "of plain arrays (pickled objects are never loaded)"
        ) from error
    missing = [key for key in required if key not in names]
    if missing:
        raise ValueError(
            f"{path} lacks {', '.join(missing)}; it must hold {', '.join(required)}"
        )
    return arrays


def _inputs(
    values: np.ndarray, key: str, path: Path, rows: np.ndarray | slice = slice(None)
) -> np.ndarray:
    """Pixels or features as a model takes them; `rows` are the numbers of the rows."""
    if values.dtype == np.uint8:
        return values[..., None] if values.ndim == 3 else values
    if values.dtype.kind != "f":
        raise ValueError(
            f"{path}: {key} is {values.dtype}; it must hold uint8 pixels or floats"
        )
    features = as_features(values)
    numbers = None if isinstance(rows, slice) else rows
    if where := non_finite(features, numbers):
        raise ValueError(
            f"{path}: {key} holds {where}; all values must be finite in float32"
        )
    return features


def _codes(
    arrays: dict[str, np.ndarray],
    key: str,
    path: Path,
    names: tuple[str, ...] | None = None,
) -> Column:
    """The integers or texts of one column, by declared names or in sorted order."""
    values = arrays[key]
    if values.dtype.kind not in "iuU" or values.shape != arrays["y_train"].shape:
        raise ValueError(
            f"{path}: {key} is {values.dtype} of the shape {values.shape}; it must "
            f"hold integers or text of the shape {arrays['y_train'].shape}"
        )
    from fedsvp_jax.data.tables import cells, encoding

    source = f"{path}: {key}"
    return encoding.of_names(cells.column_of(values, source), names, source)


def _labels(
    arrays: dict[str, np.ndarray], path: Path, settings: TableSettings
) -> tuple[np.ndarray, np.ndarray, int, tuple[str, ...]]:
    """Training and test labels, the number of classes, settings from the records."""
    labels = []
    for key in ("y_train", "y_test"):
        values, inputs_key = arrays[key], key.replace("y", "x", 1)
        shape = arrays[inputs_key].shape[:1]
        integers = integer_labels(values)
        if integers is None:
            content = "text" if values.dtype.kind in "US" else "other values"
            raise ValueError(
                f"{path}: {key} holds {content} (dtype {values.dtype}); labels must be "
                "integers from 0 to the number of classes − 1"
            )
        if values.shape != shape or not values.size:
            raise ValueError(
                f"{path}: {key} has the shape {values.shape}; it must hold one label "
                f"for each example of {inputs_key}, the shape {shape}"
            )
        labels.append(integers)
    num_classes, from_records = files.count_classes(labels, settings.classes, path)
    train, test = (files.check_labels(values, num_classes, path) for values in labels)
    return train, test, num_classes, from_records


def _writers(arrays: dict[str, np.ndarray], path: Path) -> np.ndarray | None:
    if "writer_train" not in arrays:
        return None
    return _codes(arrays, "writer_train", path).codes


def open_npz(path: Path, scratch: Path, settings: TableSettings) -> RowSource:
    """The arrays of one .npz file, with the training inputs left on disk.

    Args:
      path: the file.
      scratch: an empty folder; `x_train` is unpacked there and is not removed.
      settings: what was declared.

    Raises:
      OSError, ValueError: as `load_npz`.
    """
    return _source(_arrays(path, settings, scratch), path, settings)


def _source(
    arrays: dict[str, np.ndarray], path: Path, settings: TableSettings
) -> RowSource:
    train_labels, test_labels, num_classes, from_records = _labels(
        arrays, path, settings
    )
    return RowSource(
        name="npz",
        train_labels=train_labels,
        train_writers=_writers(arrays, path),
        rows=lambda rows: _inputs(arrays["x_train"][rows], "x_train", path, rows),
        test_inputs=_inputs(arrays["x_test"], "x_test", path),
        test_labels=test_labels,
        num_classes=num_classes,
        from_records=from_records,
        public_test=settings.test_path is not None,
    )


def npz_facts(path: Path, settings: TableSettings) -> Facts:
    """The facts in a file's labels, writers and columns; its inputs stay unread.

    Raises:
      OSError, ValueError: as `load_npz`.
    """
    arrays = _arrays(path, settings, without=("x_train", "x_test"))
    return Facts(
        num_examples=len(arrays["y_train"]),
        of_writers=examples_of(_writers(arrays, path)),
        categories={
            key: c.categories for key, c in _columns(arrays, path, settings).items()
        },
    )


def _columns(
    arrays: dict[str, np.ndarray], path: Path, settings: TableSettings
) -> dict[str, Column]:
    """The columns of the training examples."""
    schema = settings.declared()
    declared = {} if schema is None else schema.columns
    names = {
        key: column.values for key, column in declared.items() if not column.from_data
    }
    columns = {}
    for key in sorted(arrays):
        if key.startswith("column_") and key.endswith("_train"):
            name = key.removeprefix("column_").removesuffix("_train")
            columns[name] = _codes(arrays, key, path, names.get(name))
    for name in names:
        if name not in columns:
            kind = "a column of the schema"
            raise ValueError(f"{path}: " + unknown(kind, name, tuple(columns)))
    return columns


def load_npz(path: Path, settings: TableSettings) -> Dataset:
    """The arrays of one .npz file.

    Args:
      path: the file.
      settings: what was declared.

    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: the file is damaged or holds pickled objects, or its arrays do not
        fit together.
    """
    arrays = _arrays(path, settings)
    source = _source(arrays, path, settings)
    return source.in_memory(columns=_columns(arrays, path, settings))
