"""Columns of a table that tell the class."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from fedsvp_jax.data.tables import cells

_FEW = 10  # values of a column that is compared with others
_CHANCE = 1e-4  # of rows that are of one class although they tell nothing of it


def notes(
    features: Mapping[str, pa.ChunkedArray], classes: pa.ChunkedArray, label: str
) -> dict[str, str]:
    """What to ask of columns, by name.

    The rows of one value are compared with their classes: in a column of few values,
    and in any other whether the cell is missing.

    Args:
      features: (rows,) each.
      classes: (rows,) of the rows.
      label: the name of their column.
    """
    class_names, labels = cells.distinct(classes)
    shares = np.bincount(labels) / len(labels)
    questions: dict[str, str] = {}
    for name, column in features.items():
        values, of_row = ["filled", "missing"], cells.is_missing(column)
        if cells.num_distinct(column) <= _FEW:
            values, of_row = cells.distinct(column)
        counts = np.zeros((len(values), len(class_names)), int)
        np.add.at(counts, (of_row.astype(np.int8), labels), 1)
        likeliest, rows = counts.argmax(1), counts.sum(1)
        certain = (counts.max(1) == rows) & (shares[likeliest] ** rows < _CHANCE)
        if certain.any():
            at = certain.argmax()
            only = f"{label} = {class_names[likeliest[at]]}"
            questions[name] = (
                f"{values[at] or 'missing'} only where {only}: known after the "
                'outcome? then type = "drop"'
            )
    return questions
