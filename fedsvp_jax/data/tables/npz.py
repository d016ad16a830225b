"""Anyone's data: one .npz file of arrays.

`--test_data` may name another file, whose `x_test` and `y_test` then count alone.
`x_train` and `x_test` hold uint8 pixels, (n, H, W) or (n, H, W, C), or floats of
any shape. `y_train` and `y_test` hold whole numbers from 0. `writer_train` and any
number of `column_<name>_train` are optional; they hold one integer or text per
training example.
"""

from pathlib import Path

import numpy as np

from ..dataset import Column, Dataset, Names
from ..source_settings import TableSettings
from . import files

_TRAIN, _TEST = ("x_train", "y_train"), ("x_test", "y_test")


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
    if settings.test_path is None:
        arrays = _arrays(path, (*_TRAIN, *_TEST))
    else:
        tested = _arrays(settings.test_path, _TEST)
        arrays = _arrays(path, _TRAIN) | {key: tested[key] for key in _TEST}
    labels = arrays["y_train"], arrays["y_test"]
    num_classes, from_records = files.count_classes(labels, settings.classes, path)
    inputs = [
        array[..., None] if array.dtype == np.uint8 and array.ndim == 3 else array
        for array in (arrays["x_train"], arrays["x_test"])
    ]
    writers = None
    if "writer_train" in arrays:
        writers = _codes(arrays["writer_train"], f"{path}: writer_train").codes
    schema = settings.declared()
    declared = {} if schema is None else schema.columns
    names = {
        key: column.values for key, column in declared.items() if not column.from_data
    }
    columns = {}
    for key in sorted(arrays):
        if key.startswith("column_") and key.endswith("_train"):
            name = key.removeprefix("column_").removesuffix("_train")
            columns[name] = _codes(arrays[key], f"{path}: {key}", names.get(name))
    files.check_columns(names, columns, f"by its schema {path}")
    try:
        return Dataset(
            "npz",
            inputs[0],
            labels[0],
            inputs[1],
            labels[1],
            num_classes,
            train_writers=writers,
            columns=columns,
            from_records=from_records,
            public_test=settings.test_path is not None,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _arrays(path: Path, required: Names) -> dict[str, np.ndarray]:
    expected = "an .npz file of plain arrays (pickled objects are never loaded)"
    with files.readable(path, f"; it must be {expected}"):
        arrays = files.read_arrays(path)
    if missing := [key for key in required if key not in arrays]:
        raise ValueError(
            f"{path} lacks {', '.join(missing)}; it must hold {', '.join(required)}"
        )
    return arrays


def _codes(values: np.ndarray, source: str, names: Names | None = None) -> Column:
    """The values of one column, by declared names or in sorted order."""
    from . import cells, encoding  # pyarrow starts slowly

    column = cells.column_of(values, source)
    if names is None:
        return encoding.by_name(column, source)
    return Column(encoding.coded(column, names, source), names)
