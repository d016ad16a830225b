"""tensorflow-datasets by name, from prepared array_record files, without TensorFlow.

`tfds.data_source` reads array_record files and decodes with numpy. Nothing is
downloaded or prepared here, since most data sets need TensorFlow for that, once.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.core import extras

from ..dataset import Dataset, Part
from ..tables import files

_TEST_SPLITS = ("test", "validation")  # the first that exists is the test set


def _open(name: str, data_dir: Path | None) -> dict[str, Any]:
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
        )
    # TFDS raises errors of many types, some of them its own.
    except Exception as error:
        raise ValueError(
            f"tfds:{name} cannot be opened {place} ({files.reason(error)}); {expected}"
        ) from error
    if not splits:  # TFDS knows the name, but there are no files
        raise ValueError(f"tfds:{name} is not prepared {place}; {expected}")
    return splits


def _read(source: Sequence[Any], keys: Sequence[str], place: str) -> Part:
    """The inputs and the labels of one split."""
    try:
        rows = [source[row] for row in range(len(source))]
        inputs, labels = (np.stack([row[key] for row in rows]) for key in keys)
    except Exception as error:  # array_record and the decoders raise many types
        raise ValueError(
            f"{place} is damaged ({files.reason(error)}); it must be readable "
            "array_record files of examples of one shape"
        ) from error
    return inputs, labels


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
    splits = _open(name, data_dir)
    test_split = next((key for key in _TEST_SPLITS if key in splits), None)
    if "train" not in splits or test_split is None:
        raise ValueError(
            f"tfds:{name} has the splits {', '.join(sorted(splits))}; it must have "
            f"train and one of {', '.join(_TEST_SPLITS)}"
        )
    info = splits["train"].dataset_info
    keys = info.supervised_keys
    if keys is None or len(keys) != 2:
        raise ValueError(
            f"tfds:{name} has the supervised_keys {keys}; they must be one input and "
            "one label"
        )
    train, test = (
        _read(splits[split], keys, f"{info.data_dir}, split {split}")
        for split in ("train", test_split)
    )
    declared = getattr(info.features[keys[1]], "num_classes", None)
    num_classes, from_records = files.count_classes(
        (train[1], test[1]), declared, Path(info.data_dir)
    )
    return Dataset(
        f"tfds:{name}",
        *train,
        *test,
        num_classes,
        from_records=from_records,
    )
