"""Rows that are copies of other rows, if chance does not explain them."""

import math
from collections.abc import Mapping

import numpy as np

from . import cells
from .literals import Notation

_FEW = 3  # rows that agree in all columns but one, at most: more often do so by chance
_EXCESS = 5  # times as many agree in that column, too, as by chance
_CONSTANT = 0.9  # of all pairs agree in a column in which few can differ
_SETS = 20  # of equal rows, of which all are copied equally often: no design
_SHARED = {
    "row": " ε protects one row: whoever has two has twice the ε, or more. If a person "
    'may have several, unit = "person" and [person] column protect all of them.',
    "person": " ε protects one person: whoever has two ids has twice the ε, or more.",
    "client": "",
}


def _keys(name: str, column: cells.Cells) -> tuple[np.ndarray, int]:
    """(rows,) uint64, the same random number for the same text; and how many texts.

    The sum over columns is the same for equal rows, and differs for others but with a
    chance of 2⁻⁶⁴ for each pair.
    """
    encoded = cells.texts(column).dictionary_encode().combine_chunks()
    numbers = np.random.default_rng([*name.encode()]).integers(
        2**64, size=len(encoded.dictionary), dtype=np.uint64
    )
    return numbers[encoded.indices], len(numbers)


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
    total, sizes = np.zeros(1, np.uint64), {}
    for name, column in listed.items():  # one by one: keys of all would fill memory
        key, sizes[name] = _keys(name, column)
        total = total + key
    rows = np.arange(len(total))
    if unit == "person" and person:
        rows = np.sort(np.unique(total, return_index=True)[1])
        total -= _keys(person, listed.pop(person))[0]
    for name, column in [*listed.items()]:
        if (
            sizes[name] == len(rows)
            and not (cells.values_of(column, "number", Notation()) % 1 > 0).any()
        ):
            total -= _keys(name, listed.pop(name))[0]
    count = (np.diff(np.sort(total[rows])) == 0).sum()
    if count < 2 or len(rows) < _SETS or not listed:
        return []
    by_column = {name: _keys(name, column)[0][rows] for name, column in listed.items()}
    _, first, group, times = np.unique(total[rows], True, True, True)
    if not _is_no_chance(by_column, first, times):
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
    A ≈ B p / (1 - p) in at least one column. Frequent combinations are left out, and
    so are columns that are nearly constant, unless B > 0. Rows that are all repeated k,
    2k, … times are no chance either.

    Args:
      by_column: (rows,) uint64 each.
      first: (sets,) a row of each set of equal rows.
      times: (sets,) rows of each set.
    """
    if len(times) >= _SETS and np.gcd.reduce(times) > 1:
        return True
    first, times = first[times > 1], times[times > 1]
    total, is_no_chance = sum(by_column.values()), False
    for key in by_column.values():
        alike, pairs = _pairs(np.unique_counts(key).counts), math.comb(len(key), 2)
        _, group, counts = np.unique(total - key, False, True, True)
        equal = _pairs(times[counts[group[first]] <= _FEW])
        different = _pairs(counts[counts <= _FEW]) - equal
        if equal * (pairs - alike) > _EXCESS * (different + 1) * alike:
            is_no_chance = True
        elif different or alike < _CONSTANT * pairs:
            return False
    return is_no_chance


def _pairs(counts: np.ndarray) -> float:
    return float(counts @ (counts - 1.0)) / 2
