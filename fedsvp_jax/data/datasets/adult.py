"""UCI Adult as one CSV file with a header and a `split` column (train or test).

The features of a row depend on that row and on the constants of this file alone, so a
neighbour that differs in one record has the same features in all other rows. The class
is 1 where the income is >50K. Every category is also a named column, so that attributes
can be sex or race.

Features, 108 of them:

- Six numbers. x is clamped to its bounds and becomes (x - centre) / scale. Of the
  amounts of money, capital gain and loss, log(1 + x) is scaled instead.
- Eight categories, one-hot over the values of `CATEGORIES`.

The source of the categories is adult.names, the documentation that UCI distributes with
the data; "?" stands for an unknown value and occurs in the three columns that list it.
adult.names calls the six numbers "continuous" and bounds them only from below, by the
conditions of the extraction (age > 16, weight > 1, hours > 0). The bounds of `NUMBERS`
are those that descriptions of the data set commonly print, with the weight's rounded
outwards; education-num numbers the 16 levels of education. Centres and scales are round
numbers near an adult's typical values, so that features are about as large as
standardised ones. All are constants, hence the same for every neighbour: values outside
the bounds would cost accuracy, not privacy.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.data.datasets import folders


class _Scale(NamedTuple):
    """The scaling of a column of numbers; see the module."""

    low: float
    high: float
    centre: float
    scale: float
    log: bool = False


NUMBERS = {
    "age": _Scale(17, 90, centre=40, scale=15),
    "fnlwgt": _Scale(0, 1_500_000, centre=200_000, scale=100_000),
    "education-num": _Scale(1, 16, centre=10, scale=3),
    "capital-gain": _Scale(0, 99_999, centre=0, scale=3, log=True),
    "capital-loss": _Scale(0, 4356, centre=0, scale=3, log=True),
    "hours-per-week": _Scale(1, 99, centre=40, scale=12),
}


_LISTED = {  # as adult.names writes them, in alphabetical order
    "workclass": (
        "?, Federal-gov, Local-gov, Never-worked, Private, Self-emp-inc, "
        "Self-emp-not-inc, State-gov, Without-pay"
    ),
    "education": (
        "10th, 11th, 12th, 1st-4th, 5th-6th, 7th-8th, 9th, Assoc-acdm, Assoc-voc, "
        "Bachelors, Doctorate, HS-grad, Masters, Preschool, Prof-school, Some-college"
    ),
    "marital-status": (
        "Divorced, Married-AF-spouse, Married-civ-spouse, Married-spouse-absent, "
        "Never-married, Separated, Widowed"
    ),
    "occupation": (
        "?, Adm-clerical, Armed-Forces, Craft-repair, Exec-managerial, "
        "Farming-fishing, Handlers-cleaners, Machine-op-inspct, Other-service, "
        "Priv-house-serv, Prof-specialty, Protective-serv, Sales, Tech-support, "
        "Transport-moving"
    ),
    "relationship": (
        "Husband, Not-in-family, Other-relative, Own-child, Unmarried, Wife"
    ),
    "race": "Amer-Indian-Eskimo, Asian-Pac-Islander, Black, Other, White",
    "sex": "Female, Male",
    "native-country": (
        "?, Cambodia, Canada, China, Columbia, Cuba, Dominican-Republic, Ecuador, "
        "El-Salvador, England, France, Germany, Greece, Guatemala, Haiti, "
        "Holand-Netherlands, Honduras, Hong, Hungary, India, Iran, Ireland, Italy, "
        "Jamaica, Japan, Laos, Mexico, Nicaragua, Outlying-US(Guam-USVI-etc), Peru, "
        "Philippines, Poland, Portugal, Puerto-Rico, Scotland, South, Taiwan, "
        "Thailand, Trinadad&Tobago, United-States, Vietnam, Yugoslavia"
    ),
}
CATEGORIES = {name: tuple(text.split(", ")) for name, text in _LISTED.items()}


def load_adult(data_dir: Path) -> Dataset:
    """Adult as float32 features, with its categories as named columns.

    Raises:
      FileNotFoundError: `adult.csv` does not exist.
      ValueError: a column is missing or holds an impossible value.
    """
    from fedsvp_jax.data.tables import encoding, literals, table_file
    from fedsvp_jax.data.tables.schema import SchemaColumn

    folder = folders.find_folder(data_dir, ["adult"], "adult.csv", data_set="adult")
    path = folder / "adult.csv"
    table = table_file.read_table(path)[0]
    expected = (*NUMBERS, *CATEGORIES, "income", "split")
    if missing := [name for name in expected if name not in table]:
        raise ValueError(
            f"{path} lacks the column {missing[0]}; the header must name "
            f"{', '.join(expected)}"
        )

    def codes(name: str, *categories: str) -> np.ndarray:
        return encoding.coded(table[name], categories, f"{path}: column {name}")

    # adult.test ends the income with a dot.
    labels = codes("income", "<=50K", ">50K", "<=50K.", ">50K.") % 2
    is_train = codes("split", "test", "train") == 1
    if is_train.all() or not is_train.any():
        raise ValueError(
            f"{path} lacks the rows of one split; train and test are needed"
        )
    features, columns, test_columns = [], {}, {}
    for name, number in NUMBERS.items():
        values = encoding.numbers_of(
            table[name],
            SchemaColumn("number"),
            literals.Notation(),
            f"{path}: column {name}",
        )
        values = np.clip(values, number.low, number.high)
        if number.log:
            values = np.log1p(values)
        features.append(((values - number.centre) / number.scale)[:, None])
    for name, categories in CATEGORIES.items():
        category = codes(name, *categories)
        features.append(np.eye(len(categories))[category])
        columns[name] = Column(category[is_train], categories)
        test_columns[name] = Column(category[~is_train], categories)
    inputs = np.concatenate(features, axis=1).astype(np.float32)
    return Dataset(
        name="adult",
        train_inputs=inputs[is_train],
        train_labels=labels[is_train],
        test_inputs=inputs[~is_train],
        test_labels=labels[~is_train],
        num_classes=2,
        columns=columns,
        test_columns=test_columns,
        public_test=True,
    )
