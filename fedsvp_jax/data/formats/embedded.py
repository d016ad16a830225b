"""scikit-learn's digits: real 8×8 scans that come with that package, no download.

Their values x in 0..16 are stored as uint8 round(255 x / 16), as any other image.
Every fifth example of each class, in the order of the file, is a test example. The
split is therefore fixed and stratified, and the test examples come from all over the
file, in which the writers follow one another.

The file is read where scikit-learn's installation has it: importing scikit-learn,
which imports pandas and scipy, takes longer than the whole rest of a command's start.
"""

import importlib.util
import pathlib

import numpy as np

from fedsvp_jax.data.dataset import Dataset

_TEST_STRIDE = 5


def load_digits() -> Dataset:
    """1,797 digits as (8, 8, 1) uint8: about 80% for training, 20% for test."""
    package = importlib.util.find_spec("sklearn")
    assert package is not None and package.origin is not None
    file = pathlib.Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    rows = np.loadtxt(file, delimiter=",")
    images, labels = rows[:, :-1], rows[:, -1]
    pixels = np.round(images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    is_test = np.zeros(len(labels), bool)
    for label in range(10):
        is_test[np.flatnonzero(labels == label)[_TEST_STRIDE - 1 :: _TEST_STRIDE]] = (
            True
        )
    classes = labels.astype(np.int32)
    return Dataset(
        name="digits",
        train_inputs=pixels[~is_test],
        train_labels=classes[~is_test],
        test_inputs=pixels[is_test],
        test_labels=classes[is_test],
        num_classes=10,
    )
