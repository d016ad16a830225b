"""UCI Adult as one CSV file with a header and a `split` column (train or test).

The features are the numbers, standardised by the mean and standard deviation of the
training rows, and the categories, one-hot over the values in the file ("?" counts as a
value). The class is 1 where the income is >50K. Every category is also a named column,
so that attributes can be sex or race.
"""

import csv
from pathlib import Path

import numpy as np

from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.data.formats import files

NUMBERS = (
    "age",
    "fnlwgt",
    "education-num",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
)
CATEGORIES = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)


def _read_columns(path: Path) -> dict[str, np.ndarray]:
    """Every expected column as (rows,) text, without blanks around the values."""
    try:
        with path.open(newline="", encoding="utf-8") as handle:
            header, *rows = list(csv.reader(handle)) or [[]]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); it must be a CSV file"
        ) from error
    expected = (*NUMBERS, *CATEGORIES, "income", "split")
    names = [name.strip() for name in header]
    missing = [name for name in expected if name not in names]
    if missing:
        raise ValueError(
            f"{path} lacks the column {missing[0]}; the header must name "
            f"{', '.join(expected)}"
        )
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {number}, has {len(row)} values; the header names "
                f"{len(names)}"
            )
    table = np.char.strip(np.asarray(rows, dtype=np.str_).reshape(-1, len(names)))
    return {name: table[:, names.index(name)] for name in expected}


def _choices(values: np.ndarray, allowed: tuple[str, str], what: str) -> np.ndarray:
    """Which rows hold `allowed[1]`; all others must hold `allowed[0]`."""
    unknown = set(np.unique(values)) - set(allowed)
    if unknown:
        raise ValueError(
            f"{what} holds {min(unknown)!r}; it must be {allowed[0]} or {allowed[1]}"
        )
    return values == allowed[1]


def _standardised(text: np.ndarray, is_train: np.ndarray, what: str) -> np.ndarray:
    """(x - mean) / std over the training rows, (rows,) float64."""
    try:
        values = text.astype(np.float64)
    except ValueError as error:
        raise ValueError(f"{what} holds no number ({error})") from error
    if not np.isfinite(values).all():
        raise ValueError(f"{what} holds NaN or infinity; all numbers must be finite")
    std = values[is_train].std()
    return (values - values[is_train].mean()) / (std if std > 0 else 1.0)


def load_adult(data_dir: Path) -> Dataset:
    """Adult as float32 features, with its categories as named columns.

    Raises:
      FileNotFoundError: `adult.csv` does not exist.
      ValueError: a column is missing or holds an impossible value.
    """
    folder = files.find_folder(data_dir, ["adult"], "adult.csv", what="adult")
    path = folder / "adult.csv"
    table = _read_columns(path)
    income = np.char.rstrip(table["income"], ".")  # adult.test ends it with a dot
    labels = _choices(income, ("<=50K", ">50K"), f"{path}: column income")
    is_train = ~_choices(table["split"], ("train", "test"), f"{path}: column split")
    if is_train.all() or not is_train.any():
        raise ValueError(
            f"{path} lacks the rows of one split; train and test are needed"
        )
    features = [
        _standardised(table[name], is_train, f"{path}: column {name}")[:, None]
        for name in NUMBERS
    ]
    columns = {}
    for name in CATEGORIES:
        categories, codes = np.unique(table[name], return_inverse=True)
        features.append(np.eye(len(categories))[codes])
        columns[name] = Column(
            codes[is_train].astype(np.int32), tuple(map(str, categories))
        )
    inputs = np.concatenate(features, axis=1).astype(np.float32)
    return Dataset(
        name="adult",
        train_inputs=inputs[is_train],
        train_labels=labels[is_train].astype(np.int32),
        test_inputs=inputs[~is_train],
        test_labels=labels[~is_train].astype(np.int32),
        num_classes=2,
        columns=columns,
    )
