"""tensorflow-datasets by name, from prepared array_record files, no TensorFlow.

`tfds.data_source` reads array_record by index and decodes with numpy. Nothing is
downloaded or prepared here: most builders need TensorFlow for that, once.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.formats import files

_TEST_SPLITS = ("test", "validation")  # the first that exists is the test set


def _open(name: str, data_dir: Path | None) -> dict[str, Any]:
    """The data set's random-access splits by name."""
    import tensorflow_datasets as tfds

    expected = "a data set prepared with file_format=array_record was expected there"
    place = f"under data_dir {data_dir}" if data_dir else "in TFDS's own folder"
    try:
        splits = tfds.data_source(
            name,
            data_dir=data_dir,
            download=False,
            builder_kwargs={"file_format": "array_record"},
        )
    # TFDS answers with assertions, NotImplementedError and errors of its own.
    except Exception as error:
        raise ValueError(
            f"tfds:{name} cannot be opened {place} ({files.reason(error)}); {expected}"
        ) from error
    if not splits:  # TFDS knows the name, but holds no files
        raise ValueError(f"tfds:{name} is not prepared {place}; {expected}")
    return splits


def _read(
    source: Sequence[Any], input_key: str, label_key: str, what: str
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, ...) as stored and labels (n,) of one split."""
    try:
        rows = [source[index] for index in range(len(source))]
    except Exception as error:  # array_record and the decoders raise many types
        raise ValueError(
            f"{what} is damaged ({files.reason(error)}); readable "
            "array_record files were expected"
        ) from error
    shapes = {np.shape(row[input_key]) for row in rows}
    if len(shapes) != 1:
        raise ValueError(
            f"{what} holds examples of {len(shapes)} shapes; one shape was expected"
        )
    inputs = np.stack([np.asarray(row[input_key]) for row in rows])
    labels = np.asarray([row[label_key] for row in rows])
    if inputs.dtype.kind == "f":
        inputs = inputs.astype(np.float32)
    elif inputs.dtype != np.uint8:
        raise ValueError(
            f"{what}: {input_key} is {inputs.dtype}; uint8 or floats were expected"
        )
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        raise ValueError(
            f"{what}: {label_key} is {labels.dtype} of the shape {labels.shape}; one "
            "whole number an example was expected"
        )
    return inputs, labels


def load_tfds(name: str, data_dir: Path | None) -> Dataset:
    """`name` as TFDS spells it (`mnist`, `cifar10:3.0.2`), split train and test.

    The data set's own `supervised_keys` name the input and the label; where it has
    no split `test`, `validation` is the test set. `data_dir` is TFDS's: the folder
    that holds the data set's folder; None is TFDS's default.

    Raises:
      ValueError: the data set is unknown, not prepared, damaged, or not a
        classification of equally shaped examples.
    """
    splits = _open(name, data_dir)
    test_split = next((key for key in _TEST_SPLITS if key in splits), None)
    if "train" not in splits or test_split is None:
        raise ValueError(
            f"tfds:{name} has the splits {', '.join(sorted(splits))}; train and one of "
            f"{', '.join(_TEST_SPLITS)} were expected"
        )
    info = splits["train"].dataset_info
    if info.supervised_keys is None or len(info.supervised_keys) != 2:
        raise ValueError(
            f"tfds:{name} has the supervised_keys {info.supervised_keys}; one input "
            "and one label were expected"
        )
    input_key, label_key = info.supervised_keys
    path = Path(info.data_dir)
    train_inputs, train_labels = _read(
        splits["train"], input_key, label_key, f"{path}, split train"
    )
    test_inputs, test_labels = _read(
        splits[test_split], input_key, label_key, f"{path}, split {test_split}"
    )
    num_classes = getattr(info.features[label_key], "num_classes", None)
    if num_classes is None:
        num_classes = 1 + int(max(train_labels.max(), test_labels.max()))
    return Dataset(
        name=f"tfds:{name}",
        train_inputs=train_inputs,
        train_labels=files.check_labels(train_labels, num_classes, path),
        test_inputs=test_inputs,
        test_labels=files.check_labels(test_labels, num_classes, path),
        num_classes=num_classes,
    )
