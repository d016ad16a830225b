"""Columns of a table that tell the class, and those that repeat another."""

import itertools
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from scipy import special

from fedsvp_jax.data.tables import cells
from fedsvp_jax.data.tables.literals import Notation
from fedsvp_jax.data.tables.schema import SchemaColumn

_FEW = 10  # values of a column that is compared with others
_CHANCE = 1e-4  # of rows that agree although one column tells nothing of the other
_MOST_CODES = 200  # values of a column that another may be a function of
_ROUNDED = 0.05  # standard deviations, between units that were rounded apart
_SAMPLE = 1000  # rows by which most pairs of columns are told apart


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


def repetitions(
    features: Mapping[str, pa.ChunkedArray],
    declared: Mapping[str, SchemaColumn],
    notation: Notation,
) -> dict[str, str]:
    """What to ask of columns that are linear in the features of another, by name.

    So is a column with one value for each category of another, or for each of its two
    values: an indicator, its complement, a category written twice. So is a number in
    another unit. Of two that tell the same the later is named.

    Args:
      features: (rows,) each.
      declared: the draft of each.
      notation: of the numbers.
    """
    codes: dict[str, np.ndarray] = {}
    scores: dict[str, np.ndarray] = {}
    for name, column in features.items():
        kind = declared[name]
        if kind.width and cells.num_distinct(column) <= _MOST_CODES:
            codes[name] = cells.distinct(column)[1]
        if kind.width and kind.type != "category":
            numbers = cells.values_of(column, kind.type, notation, kind.form)
            numbers /= np.nanmax(np.abs(numbers), initial=1)  # for their squares
            numbers -= np.nanmean(numbers)
            if spread := np.nanstd(numbers):
                scores[name] = (numbers / spread).astype(np.float32)
    sources = {
        later: earlier
        for earlier, later in reversed([*itertools.combinations(scores, 2)])
        if _is_in_another_unit(scores[earlier], scores[later])
    }
    firsts = {
        name: np.unique(of_row, return_index=True)[1]
        for name, of_row in codes.items()
        if declared[name].type == "category" or of_row.max() == 1
    }
    order = dict(zip(codes, range(len(codes)), strict=True))
    for source, name in itertools.product(firsts, codes):
        first, values = firsts[source], codes[name]
        is_mutual = len(first) == values.max() + 1 and name in firsts
        if (
            name not in sources
            and name != source
            and (order[source] < order[name] or not is_mutual)
            and _is_function(values, codes[source], first)
        ):
            sources[name] = source
    return {
        name: f'{source} tells the same: type = "drop" leaves {name} out'
        for name, source in sources.items()
    }


def _is_in_another_unit(score: np.ndarray, other: np.ndarray) -> bool:
    """Whether standardised numbers, NaN where missing, are equal or opposite."""
    return all(
        (np.isnan(score[rows]) == np.isnan(other[rows])).all()
        and any(
            not (np.abs(score[rows] - sign * other[rows]) > _ROUNDED).any()
            for sign in (1, -1)
        )
        for rows in (slice(_SAMPLE), slice(None))
    )


def _is_function(values: np.ndarray, levels: np.ndarray, first: np.ndarray) -> bool:
    """Whether each level has one value, which by chance would hardly be so.

    Args:
      values, levels: (rows,) codes from 0.
      first: (levels,) the first row of each level.
    """
    counts = np.bincount(values)
    surprise = len(values) * special.entr(counts / len(values)).sum() + np.log(_CHANCE)
    return surprise > len(first) * np.log(len(counts)) and all(
        (values[first][levels[rows]] == values[rows]).all()
        for rows in (slice(_SAMPLE), slice(None))
    )
