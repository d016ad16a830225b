"""Columns of a table that tell the class, or that another column tells."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from fedsvp_jax.data.tables import cells

_FEW = 10  # values of a column that is compared with others
_CHANCE = 1e-4  # of rows that are of one class although they tell nothing of it
_MOST = 200  # columns that are compared with one another; the time is their square
_SCREENED = 2**10  # rows by which most columns show that they tell nothing


def notes(
    features: Mapping[str, pa.ChunkedArray], classes: pa.ChunkedArray, label: str
) -> dict[str, str]:
    """What to ask of columns, by name.

    Columns of few values, and whether a cell of any other is missing, are compared:
    the rows of one value with their classes, and columns of two values with all others,
    unless there are too many.

    Args:
      features: (rows,) each.
      classes: (rows,) of the rows.
      label: the name of their column.
    """
    class_names, labels = cells.distinct(classes)
    shares = np.bincount(labels) / len(labels)
    questions: dict[str, str] = {}
    codes: dict[str, np.ndarray] = {}
    for name, column in features.items():
        values, of_row = ["filled", "missing"], cells.is_missing(column)
        if cells.num_distinct(column) <= _FEW:
            values, of_row = cells.distinct(column)
        codes[name] = of_row.astype(np.int8)
        counts = _crossed(codes[name], labels)
        likeliest, rows = counts.argmax(1), counts.sum(1)
        certain = (counts.max(1) == rows) & (shares[likeliest] ** rows < _CHANCE)
        if certain.any():
            at = certain.argmax()
            only = f"{label} = {class_names[likeliest[at]]}"
            questions[name] = (
                f"{values[at] or 'missing'} only where {only}: known after the "
                'outcome? then type = "drop"'
            )
    for name in features.keys() - questions if len(features) <= _MOST else ():
        decisive = [
            other
            for other in codes.keys() - {name}
            if cells.num_distinct(features[name]) == 2
            and _decides(codes[other], codes[name])
        ]
        if decisive:
            questions[name] = (
                f"{min(decisive)} tells it in every row: leave one of the two out, by "
                'type = "drop"?'
            )
    return questions


def _crossed(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The numbers of rows of a table by its codes in two columns, (n,) each."""
    table = np.zeros((rows.max() + 1, columns.max() + 1), int)
    np.add.at(table, (rows, columns), 1)
    return table


def _decides(codes: np.ndarray, decided: np.ndarray) -> bool:
    """Whether rows that are equal in one column are equal in the other; (rows,) int."""
    return all(
        np.count_nonzero(_crossed(codes[rows], decided[rows]), axis=1).max() == 1
        for rows in (slice(_SCREENED), slice(None))
    )
