"""tensorflow-datasets by name, from prepared array_record files, without TensorFlow.

`tfds.data_source` reads array_record files by index and decodes with numpy. Nothing is
downloaded or prepared here, since most data sets need TensorFlow for that, once.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.core import extras
from fedsvp_jax.data.dataset import Dataset, RowSource
from fedsvp_jax.data.tables import files

_BLOCK = 4096  # undecoded examples in memory while the labels are read
_TEST_SPLITS = ("test", "validation")  # the first that exists is the test set


def _open(name: str, data_dir: Path | None, **options: Any) -> dict[str, Any]:
    """The data set's random-access splits by name."""
    with extras.needed("tfds", f"tfds:{name}"):
        import tensorflow_datasets as tfds
    expected = "a data set prepared with file_format=array_record was expected there"
    place = f"under data_dir {data_dir}" if data_dir else "in TFDS's own folder"
    try:
        splits = tfds.data_source(
            name,
            data_dir=data_dir,
            download=False,
            builder_kwargs={"file_format": "array_record"},
            **options,
        )
    # TFDS raises errors of many types, some of them its own.
    except Exception as error:
        raise ValueError(
            f"tfds:{name} cannot be opened {place} ({files.reason(error)}); {expected}"
        ) from error
    if not splits:  # TFDS knows the name, but there are no files
        raise ValueError(f"tfds:{name} is not prepared {place}; {expected}")
    return splits


def _rows(source: Sequence[Any], index: Iterable[int], place: str) -> list[Any]:
    try:
        return [source[row] for row in index]
    except Exception as error:  # array_record and the decoders raise many types
        raise ValueError(
            f"{place} is damaged ({files.reason(error)}); it must be readable "
            "array_record files"
        ) from error


def _inputs(rows: Sequence[Any], input_key: str, place: str) -> np.ndarray:
    shapes = {np.shape(row[input_key]) for row in rows}
    if len(shapes) != 1:
        raise ValueError(
            f"{place} holds examples of {len(shapes)} shapes; all must have the same"
        )
    inputs = np.stack([np.asarray(row[input_key]) for row in rows])
    if inputs.dtype.kind == "f":
        return inputs.astype(np.float32)
    if inputs.dtype != np.uint8:
        raise ValueError(
            f"{place}: {input_key} is {inputs.dtype}; it must be uint8 or floats"
        )
    return inputs


def _labels(rows: Sequence[Any], label_key: str, place: str) -> np.ndarray:
    labels = np.asarray([row[label_key] for row in rows])
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise ValueError(
            f"{place}: {label_key} is {labels.dtype} of the shape {labels.shape}; it "
            "must be one integer per example"
        )
    return labels


def open_tfds(name: str, data_dir: Path | None) -> RowSource:
    """The same data set as `load_tfds`; training inputs are read when asked for.

    Raises:
      ValueError: as `load_tfds`. The training inputs are checked when they are read.
    """
    splits = _open(name, data_dir)
    import tensorflow_datasets as tfds

    test_split = next((key for key in _TEST_SPLITS if key in splits), None)
    if "train" not in splits or test_split is None:
        raise ValueError(
            f"tfds:{name} has the splits {', '.join(sorted(splits))}; it must have "
            f"train and one of {', '.join(_TEST_SPLITS)}"
        )
    train, test = splits["train"], splits[test_split]
    info = train.dataset_info
    if info.supervised_keys is None or len(info.supervised_keys) != 2:
        raise ValueError(
            f"tfds:{name} has the supervised_keys {info.supervised_keys}; they must "
            "be one input and one label"
        )
    input_key, label_key = info.supervised_keys
    path = Path(info.data_dir)
    trained, tested = f"{path}, split train", f"{path}, split {test_split}"
    undecoded = {input_key: tfds.decode.SkipDecoding()}
    plain = _open(name, data_dir, decoders=undecoded)["train"]
    blocks = [
        range(start, min(start + _BLOCK, len(plain)))
        for start in range(0, len(plain), _BLOCK)
    ]
    train_labels = np.concatenate(
        [_labels(_rows(plain, block, trained), label_key, trained) for block in blocks]
    )
    test_rows = _rows(test, range(len(test)), tested)
    test_labels = _labels(test_rows, label_key, tested)
    num_classes, from_records = files.count_classes(
        (train_labels, test_labels),
        getattr(info.features[label_key], "num_classes", None),
        path,
    )
    return RowSource(
        name=f"tfds:{name}",
        train_labels=files.check_labels(train_labels, num_classes, path),
        train_writers=None,
        rows=lambda rows: _inputs(
            _rows(train, np.arange(len(train))[rows].tolist(), trained),
            *(input_key, trained),
        ),
        test_inputs=_inputs(test_rows, input_key, tested),
        test_labels=files.check_labels(test_labels, num_classes, path),
        num_classes=num_classes,
        from_records=from_records,
        public_test=True,
    )


def load_tfds(name: str, data_dir: Path | None) -> Dataset:
    """A data set of TFDS, with its splits `train` and `test`.

    The data set's `supervised_keys` name the input and the label. Without a split
    `test`, the split `validation` is the test set.

    Args:
      name: as TFDS writes it, such as `mnist` or `cifar10:3.0.2`.
      data_dir: TFDS's: the folder that holds the data set's folder; None for TFDS's
        default.

    Raises:
      ValueError: the data set is unknown, not prepared, damaged, or not a
        classification of equally shaped examples.
    """
    return open_tfds(name, data_dir).in_memory()
