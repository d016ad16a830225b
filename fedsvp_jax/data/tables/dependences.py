"""Columns of a table that tell the class, and those that repeat another."""

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from . import cells, encoding, literals, schema

_FEW = 10  # values of a column that is compared with others
_CHANCE = 1e-4  # of rows that are of one class although they tell nothing of it
_BOUNDS = 101  # of numbers, which are compared with the classes on both sides
_MOSTLY = 0.85  # of a class's cells, or of the errors that naming one class has
_LATE = re.compile(
    "(fu|surv)?[ _]?time|surv|follow|dea(d|th)|died|(yr|mo|da)?dth|discharge|outcome",
    re.I,
)
CELLS = 2**21  # of features that are compared with one another
_ROUNDED = 5e-4  # of the squares, between units that were rounded apart
_FEWEST = 5  # rows at an extreme; fewer agree by chance
_FREE = 30  # rows beside as many as features, which fit anything
_RANK = 1e-4
_NEAR = 100  # columns before and behind a column


def notes(
    features: Mapping[str, cells.Cells], classes: cells.Cells, label: str
) -> dict[str, str]:
    """What to ask of columns, by name.

    The rows of one value are compared with their classes: in a column of few values,
    and in any other whether the cell is missing. Many numbers are divided by a bound.

    Args:
      features: (rows,) each.
      classes: (rows,) of the rows.
      label: the name of their column.
    """
    class_names, labels = cells.distinct(classes)
    shares = np.bincount(labels) / len(labels)
    questions: dict[str, str] = {}
    for name, column in features.items():
        missing = cells.is_missing(column)
        values, of_row = ["filled", "missing"], missing
        is_few = cells.num_distinct(column) <= _FEW
        if is_few:
            values, of_row = cells.distinct(column)
        counts = _counts(of_row, labels)
        likeliest, rows = counts.argmax(1), counts.sum(1)
        certain = (counts.max(1) == rows) & (shares[likeliest] ** rows < _CHANCE)
        lacking = np.bincount(labels, missing) / np.bincount(labels)
        right = counts.max(1).sum()
        numbers = cells.values_of(column, "number", literals.Notation())
        if not is_few and not np.isnan(numbers).all():
            ends = np.nanquantile(numbers, np.linspace(0, 1, _BOUNDS))
            below = _counts(np.searchsorted(ends, numbers), labels).cumsum(0)
            right = (below.max(1) + (below[-1] - below).max(1)).max()
        if certain.any():
            at = certain.argmax()
            note = (
                f"{values[at] or 'missing'} only where {label} = "
                f"{class_names[likeliest[at]]}"
            )
        elif lacking.max() > _MOSTLY and lacking.min() < 0.5:
            note = f"mostly missing where {label} = {class_names[lacking.argmax()]}"
        elif right > len(labels) * (_MOSTLY + (1 - _MOSTLY) * shares.max()):
            note = f"tells {label} nearly alone"
        elif _LATE.match(name):
            note = "a time or an end, by its name"
        else:
            continue
        if certain.any() or len(labels) > _FEW * len(class_names):
            questions[name] = note + ': known after the outcome? then type = "drop"'
    return questions


def _counts(groups: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(groups, classes) int64: the rows of each."""
    counts = np.zeros((groups.max() + 1, labels.max() + 1), int)
    np.add.at(counts, (groups.astype(int), labels), 1)
    return counts


def repetitions(
    features: Mapping[str, cells.Cells],
    declared: Mapping[str, schema.SchemaColumn],
    notation: literals.Notation,
) -> dict[str, str]:
    """What to ask of columns that are linear in the features of another, by name.

    So is an indicator of a category, its complement, a category written twice, and a
    number in another unit: least squares explain it. Of two that tell the same the
    later is named. A large table is sampled, and of many columns those that stand near
    one another are compared.

    Args:
      features: (rows,) each.
      declared: the draft of each.
      notation: of the numbers.
    """
    width = sum(declared[name].width for name in features)
    blocks: dict[str, np.ndarray] = {}  # of length 1 each
    for name, column in features.items():
        kind = declared[name]
        if not kind.width:
            continue
        order = np.random.default_rng(0).permutation(len(column))[: CELLS // width]
        column = column.take(pa.array(order))
        if kind.type == "category":
            _, codes = cells.distinct(cells.as_codes(column))
            block = np.eye(codes.max() + 1)[codes]
        else:
            values, _ = encoding.marked(column, kind, notation)
            block = np.nan_to_num(values, nan=kind.fill or 0)[:, None]
            block /= max(np.abs(block).max(), 1)  # for their squares
        block -= block.mean(0)
        size = (block**2).sum()
        is_free = len(block) > block.shape[1] + _FREE
        if is_free and size > _FEWEST * (block**2).max():
            blocks[name] = (block / np.sqrt(size)).astype(np.float32)
    names, explained = [*blocks], dict[str, list[str]]()
    for at, (source, block) in enumerate(blocks.items()):
        inverse = np.linalg.pinv(block, _RANK)
        explained[source] = [
            name
            for name in names[max(at - _NEAR, 0) : at + _NEAR]
            if np.square(blocks[name] - block @ (inverse @ blocks[name])).sum()
            < _ROUNDED
        ]
    return {
        name: f'{source} tells the same: type = "drop" leaves {name} out'
        for source in reversed(names)  # so that of several the first is named
        for name in explained[source]
        if names.index(source) < names.index(name) or source not in explained[name]
    }
