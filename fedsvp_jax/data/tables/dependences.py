"""Columns of a table that tell the class, and those that repeat another."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from fedsvp_jax.data.tables import cells
from fedsvp_jax.data.tables.literals import Notation
from fedsvp_jax.data.tables.schema import SchemaColumn

_FEW = 10  # values of a column that is compared with others
_CHANCE = 1e-4  # of rows that are of one class although they tell nothing of it
_CELLS = 2**21  # of features that are compared with one another
_ROUNDED = 5e-4  # of the squares, between units that were rounded apart
_FEWEST = 5  # rows at an extreme; fewer agree by chance
_FREE = 30  # rows beside as many as features, which fit anything
_RANK = 1e-4
_NEAR = 100  # columns before and behind a column


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
        order = np.random.default_rng(0).permutation(len(column))[: _CELLS // width]
        column = column.take(pa.array(order))
        if kind.type == "category":
            _, codes = cells.distinct(column)
            block = np.eye(codes.max() + 1)[codes]
        else:
            values = cells.values_of(column, kind.type, notation, kind.form)
            block = np.nan_to_num(values, nan=kind.fill or 0)[:, None]
            block = block / max(np.abs(block).max(), 1)  # for their squares
        block = block - block.mean(0)
        size = (block**2).sum()
        is_free = len(block) > block.shape[1] + _FREE
        if is_free and size > _FEWEST * (block**2).max():
            blocks[name] = (block / np.sqrt(size)).astype(np.float32)
    if not blocks:
        return {}
    stacked = np.concatenate([*blocks.values()], axis=1)
    starts = np.cumsum([0, *(block.shape[1] for block in blocks.values())])
    tells: set[tuple[int, int]] = set()
    for at, block in enumerate(blocks.values()):
        near = slice(max(at - _NEAR, 0), min(at + _NEAR, len(blocks)))
        first = starts[near]
        neighbours = stacked[:, first[0] : starts[near.stop]]
        rest = neighbours - block @ (np.linalg.pinv(block, _RANK) @ neighbours)
        explained = np.add.reduceat((rest**2).sum(0), first - first[0]) < _ROUNDED
        tells |= {
            (at, near.start + place) for place in np.flatnonzero(explained).tolist()
        }
    sources = {
        name: source
        for source, name in sorted(tells, reverse=True)
        if source < name or (name, source) not in tells
    }
    names = [*blocks]
    return {
        names[name]: f'{names[source]} tells the same: type = "drop" leaves '
        f"{names[name]} out"
        for name, source in sources.items()
    }
