"""UCI Adult as one CSV file with a header and a `split` column (train or test).

The features of a row depend on that row and on the constants of this file alone, so a
neighbour that differs in one record has the same features in all other rows. The class
is 1 where the income is >50K. Every category is also a named column, so that attributes
can be sex or race.

Features, 108 of them:

- Six numbers. x is clamped to its bounds and becomes (x - centre) / scale. Of the
  amounts of money, capital gain and loss, log(1 + x) is scaled instead.
- Eight categories, one-hot over their values.

Bounds, centres, scales and categories stand in adult.toml, with their source; "?" is an
unknown value and occurs in the three columns that list it.
"""

from pathlib import Path

import numpy as np

from fedsvp_jax.core.files import toml_beside

from ..dataset import Column, Dataset
from . import folders

_FACTS = toml_beside(__file__, "adult.toml")
CATEGORIES = {name: tuple(values) for name, values in _FACTS["categories"].items()}


def load_adult(data_dir: Path) -> Dataset:
    """Adult as float32 features, with its categories as named columns.

    Raises:
      FileNotFoundError: `adult.csv` does not exist.
      ValueError: a column is missing or holds an impossible value.
    """
    from ..tables import encoding, literals, table_file
    from ..tables.schema import SchemaColumn

    file = "adult.csv"
    path = folders.find_folder(data_dir, ["adult"], file, data_set="adult") / file
    table = table_file.read_table(path)[0]
    expected = (*_FACTS["numbers"], *CATEGORIES, "income", "split")
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
    for name, number in _FACTS["numbers"].items():
        values, _ = encoding.numbers_of(
            table[name],
            SchemaColumn("number"),
            literals.Notation(),
            f"{path}: column {name}",
        )
        values = np.clip(values, *number["bounds"])
        if number["log"]:
            values = np.log1p(values)
        features.append((values - number["centre"]) / number["scale"])
    for name, categories in CATEGORIES.items():
        category = codes(name, *categories)
        features.append(np.eye(len(categories))[category])
        columns[name] = Column(category[is_train], categories)
        test_columns[name] = Column(category[~is_train], categories)
    inputs = np.column_stack(features).astype(np.float32)
    return Dataset(
        "adult",
        inputs[is_train],
        labels[is_train],
        inputs[~is_train],
        labels[~is_train],
        num_classes=2,
        columns=columns,
        test_columns=test_columns,
        public_test=True,
    )
