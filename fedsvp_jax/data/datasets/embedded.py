"""Data that come with scikit-learn: its digits, and two photographs.

The digits are real 8×8 scans. Their values x in 0..16 are stored as uint8
round(255 x / 16), as any other image. Every fifth example of each class, in the order
of the file, is a test example. The split is therefore fixed and stratified, and the
test examples come from all over the file, in which the writers follow one another.

The files are read from scikit-learn's folder without importing it: the import brings
pandas and scipy, and takes longer than the rest of a command's start.
"""

import importlib.util
import pathlib

import numpy as np

from fedsvp_jax.core import extras

from ..dataset import Dataset

_TEST_STRIDE = 5


def load_digits() -> Dataset:
    """1,797 digits as (8, 8, 1) uint8: about 80% for training, 20% for test."""
    package = importlib.util.find_spec("sklearn")
    assert package is not None and package.origin is not None
    folder = pathlib.Path(package.origin).parent / "datasets" / "data"
    rows = np.loadtxt(folder / "digits.csv.gz", delimiter=",")
    images, labels = rows[:, :-1], rows[:, -1]
    pixels = np.round(images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    is_test = np.zeros(len(labels), bool)
    for label in range(10):
        is_test[np.flatnonzero(labels == label)[_TEST_STRIDE - 1 :: _TEST_STRIDE]] = (
            True
        )
    return Dataset(
        "digits",
        pixels[~is_test],
        labels[~is_test],
        pixels[is_test],
        labels[is_test],
        num_classes=10,
        public_test=True,
    )


def photographs() -> list[np.ndarray]:
    """(427, 640, 3) uint8 each: a temple and a flower, licensed CC BY."""
    from sklearn.datasets import load_sample_images

    with extras.needed("report", "normalising scatter_channels_linear"):
        images: list[np.ndarray] = load_sample_images().images
    return images
