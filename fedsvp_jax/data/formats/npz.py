"""Anyone's data: one .npz of arrays.

`x_train` and `x_test` hold uint8 pixels, (n, H, W) or (n, H, W, C), or floats of
any shape; `y_train` and `y_test` whole numbers from 0. Optional: `writer_train`
(numbers or text) and any `column_<name>_train` (numbers or text), one a row.
"""

from pathlib import Path

import numpy as np

from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.data.formats import files

_REQUIRED = ("x_train", "y_train", "x_test", "y_test")


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise FileNotFoundError(
            f"data_dir {path} is not a file; npz expects the path of an .npz file"
        )
    try:
        # np.load leaves a file that it opened itself, and cannot read, open.
        with (
            path.open("rb") as handle,
            np.load(handle, allow_pickle=False) as archive,
        ):
            arrays = {key: archive[key] for key in archive.files}
    # zipfile and numpy answer damage with some ten types of error.
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read ({files.reason(error)}); an .npz of plain "
            "arrays was expected (pickled objects are never loaded)"
        ) from error
    missing = [key for key in _REQUIRED if key not in arrays]
    if missing:
        raise ValueError(
            f"{path} lacks {', '.join(missing)}; {', '.join(_REQUIRED)} were expected"
        )
    return arrays


def _inputs(values: np.ndarray, key: str, path: Path) -> np.ndarray:
    if values.dtype == np.uint8:
        return values[..., None] if values.ndim == 3 else values
    if values.dtype.kind != "f":
        raise ValueError(
            f"{path}: {key} is {values.dtype}; uint8 pixels or floats were expected"
        )
    with np.errstate(over="ignore"):
        features = values.astype(np.float32)
    if not np.isfinite(features).all():
        raise ValueError(
            f"{path}: {key} holds NaN or infinity; every value was expected finite in "
            "float32"
        )
    return features


def _codes(arrays: dict[str, np.ndarray], key: str, path: Path) -> Column:
    """Numbers or text of one column, coded by their sorted distinct values."""
    values = arrays[key]
    if values.dtype.kind not in "iuU" or values.shape != arrays["y_train"].shape:
        raise ValueError(
            f"{path}: {key} is {values.dtype} of the shape {values.shape}; whole "
            f"numbers or text of the shape {arrays['y_train'].shape} were expected"
        )
    categories, codes = np.unique(values, return_inverse=True)
    return Column(codes.astype(np.int32), tuple(map(str, categories)))


def load_npz(path: Path) -> Dataset:
    """The arrays of one .npz file; the labels say how many classes there are.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is damaged, pickled, or its arrays do not fit together.
    """
    arrays = _read_arrays(path)
    labels = [arrays["y_train"], arrays["y_test"]]
    for key, values in zip(("y_train", "y_test"), labels, strict=True):
        rows = arrays[key.replace("y", "x", 1)].shape[:1]
        if values.dtype.kind not in "iu" or values.shape != rows or not values.size:
            raise ValueError(
                f"{path}: {key} is {values.dtype} of the shape {values.shape}; whole "
                f"numbers, one for each of its examples {rows}, were expected"
            )
    num_classes = 1 + int(max(values.max() for values in labels))
    suffix = "_train"
    return Dataset(
        name="npz",
        train_inputs=_inputs(arrays["x_train"], "x_train", path),
        train_labels=files.check_labels(labels[0], num_classes, path),
        test_inputs=_inputs(arrays["x_test"], "x_test", path),
        test_labels=files.check_labels(labels[1], num_classes, path),
        num_classes=num_classes,
        train_writers=_codes(arrays, "writer_train", path).codes
        if "writer_train" in arrays
        else None,
        columns={
            key.removeprefix("column_").removesuffix(suffix): _codes(arrays, key, path)
            for key in sorted(arrays)
            if key.startswith("column_") and key.endswith(suffix)
        },
    )
