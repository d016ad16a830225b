"""Data sets as TFDS's own writer writes them.

TFDS looks for a builder's files by its module's name, which must have no dots in it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
import tiny_files

SIZES = {"train": 12, "test": 6}
NUM_CLASSES = 4


class _ScansBase:
    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "scan": tfds.features.Image(shape=(5, 5, 1)),
            "kind": tfds.features.ClassLabel(num_classes=NUM_CLASSES),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(features),
            supervised_keys=("scan", "kind"),
        )

    def _split_generators(self, _: Any) -> dict[str, Any]:
        return {split: self._generate_examples(split) for split in SIZES}

    def _generate_examples(self, split: str) -> Iterator[tuple[int, dict[str, Any]]]:
        for i, image in enumerate(tiny_files.images(SIZES[split], 5, 1)):
            # Encoded here: TFDS would need TensorFlow to encode an array.
            yield i, {"scan": tiny_files.png(image), "kind": i % 3}


class RegisteredScans(_ScansBase, tfds.core.GeneratorBasedBuilder):
    """Known to TFDS by its name, as the published data sets are."""


class FiledScans(_ScansBase, tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Known by its files alone, as a data set that a colleague prepared."""


class ValidatedRows(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Plain tensors, with `validation` instead of `test`."""

    VERSION = tfds.core.Version("2.0.0")
    KEYS: tuple[str, str] | None = ("row", "y")
    SPLITS = ("train", "validation")

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "row": tfds.features.Tensor(shape=(3,), dtype=np.float32),
            "y": tfds.features.Scalar(dtype=np.int64),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(features),
            supervised_keys=self.KEYS,
        )

    def _split_generators(self, _: Any) -> dict[str, Any]:
        return {split: self._generate_examples() for split in self.SPLITS}

    def _generate_examples(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for i in range(5):
            yield i, {"row": np.full(3, i, np.float32), "y": i}


class Unsupervised(ValidatedRows, skip_registration=True):
    """The same without supervised_keys."""

    KEYS = None


class TrainOnly(ValidatedRows, skip_registration=True):
    """The same with one split."""

    SPLITS = ("train",)
