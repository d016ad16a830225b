"""Rows that are copies of other rows, if chance does not explain them."""

import math
from collections.abc import Mapping

import numpy as np

from . import cells
from .literals import Notation

_FEW = 3  # rows that agree in all columns but one, at most: more often do so by chance
_EXCESS = 5  # times as many agree in that column, too, as by chance
_SETS = 20  # of equal rows, of which all are copied equally often: no design
_SHARED = {
    "row": " ε protects one row: whoever has two has twice the ε, or more. If a person "
    'may have several, unit = "person" and [person] column protect all of them.',
    "person": " ε protects one person: whoever has two ids has twice the ε, or more.",
    "client": "",
}


def _keys(column: cells.Cells, seed: int) -> tuple[np.ndarray, int]:
    """(rows,) uint64, the same random number for the same text; and how many texts.

    The sum over columns is the same for equal rows, and differs for others but with a
    chance of 2⁻⁶⁴ for each pair.
    """
    encoded = cells.texts(column).dictionary_encode().combine_chunks()
    size, generator = len(encoded.dictionary), np.random.default_rng(seed)
    numbers = generator.integers(2**64, size=size, dtype=np.uint64)
    return numbers[encoded.indices], size


def questions(
    columns: Mapping[str, cells.Cells], unit: str, person: str | None
) -> list[str]:
    """What to ask of rows that equal another in all columns but names of rows, unless
    chance would make as many.

    Names of rows all differ, and are no fractions. Equal rows of one person are no
    matter where the person is the unit.

    Args:
      columns: (rows,) each; the one of the name "" and `split` are not compared.
      unit: of privacy.
      person: the column of persons, if any.
    """
    listed = {k: v for k, v in columns.items() if k and k.lower() != "split"}
    encoded = {name: _keys(listed[name], seed) for seed, name in enumerate(listed)}
    rows = np.arange(len(next(iter(columns.values()))))
    if unit == "person" and person is not None:
        whole = sum(key for key, _ in encoded.values())
        rows = np.sort(np.unique(whole, return_index=True)[1])
        del encoded[person]
    by_column = {
        name: key[rows]
        for name, (key, size) in encoded.items()
        if size < len(rows)
        or (cells.values_of(columns[name], "number", Notation()) % 1 > 0).any()
    }
    if len(rows) < _SETS or not by_column:
        return []
    _, first, group, times = np.unique(sum(by_column.values()), True, True, True)
    count = len(rows) - len(first)
    if count < 2 or not _is_no_chance(by_column, first, times):
        return []
    copy = np.flatnonzero(first[group] != np.arange(len(rows)))[0]
    pair = rows[[copy, first[group[copy]]]] + 1
    return [
        f"{count} of {len(rows)} rows repeat another in all columns but names of rows "
        f"(row {pair[0]} repeats row {pair[1]}), more than by chance: exported twice? "
        f"Delete the copies.{_SHARED[unit]} A test row whose copy trains flatters the "
        "score. This looked at the rows: keep it to yourself"
    ]


def _is_no_chance(
    by_column: Mapping[str, np.ndarray], first: np.ndarray, times: np.ndarray
) -> bool:
    """Whether rows that agree in all columns but any one agree in it, too, too often.

    Let A and B be the pairs of rows that agree in all other columns and in this one, or
    not in this one, and p the part of all pairs that agree in it. By chance
    A ≈ B p / (1 - p) in at least one column. Frequent combinations are left out. Rows
    that are all repeated k, 2k, … times are no chance either.

    Args:
      by_column: (rows,) uint64 each.
      first: (sets,) a row of each set of equal rows.
      times: (sets,) rows of each set.
    """
    if len(times) >= _SETS and np.gcd.reduce(times) > 1:
        return True
    first, times = first[times > 1], times[times > 1]
    total = sum(by_column.values())
    for key in by_column.values():
        alike, pairs = _pairs(np.unique_counts(key).counts), math.comb(len(key), 2)
        if alike == pairs:  # constant
            continue
        _, group, counts = np.unique(total - key, False, True, True)
        equal = _pairs(times[counts[group[first]] <= _FEW])
        different = _pairs(counts[counts <= _FEW]) - equal
        if equal * (pairs - alike) <= _EXCESS * (different + 1) * alike:
            return False
    return True


def _pairs(counts: np.ndarray) -> float:
    return float(counts @ (counts - 1.0)) / 2
