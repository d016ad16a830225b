"""scikit-learn's digits: real 8×8 scans that come with that package, no download.

Their values x in 0..16 are stored as uint8 round(255 x / 16), as any other image.
Every fifth example of each class, in the order of the file, is a test example. The
split is therefore fixed and stratified, and the test examples come from all over the
file, in which the writers follow one another.
"""

import numpy as np
from sklearn.datasets import load_digits as _sklearn_digits

from fedsvp_jax.data.dataset import Dataset

_TEST_STRIDE = 5


def load_digits() -> Dataset:
    """1,797 digits as (8, 8, 1) uint8: about 80% for training, 20% for test."""
    images, labels = _sklearn_digits(return_X_y=True)
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
