"""Rows that are copies of other rows, if chance does not explain them."""

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


def keys(columns: Mapping[str, cells.Cells]) -> dict[str, np.ndarray]:
    """(rows,) uint64 by column: the same random number for the same text.

    Their sum over columns is the same for equal rows, and differs for others but with a
    chance of 2⁻⁶⁴ for each pair.
    """
    drawn = {}
    for seed, (name, column) in enumerate(columns.items()):
        encoded = cells.texts(column).dictionary_encode().combine_chunks()
        size, generator = len(encoded.dictionary), np.random.default_rng(seed)
        numbers = generator.integers(2**64, size=size, dtype=np.uint64)
        drawn[name] = numbers[encoded.indices]
    return drawn


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
    by_column = keys({k: v for k, v in columns.items() if k and k.lower() != "split"})
    rows = np.arange(len(next(iter(columns.values()))))
    if unit == "person" and person is not None:
        everything = np.sum([*by_column.values()], axis=0)
        rows = np.sort(np.unique(everything, return_index=True)[1])
        del by_column[person]
    compared = {name: key[rows] for name, key in by_column.items()}
    unnamed = {
        name: key
        for name, key in compared.items()
        if len(np.unique(key)) < len(rows)
        or (cells.values_of(columns[name], "number", Notation()) % 1 > 0).any()
    }
    for each in (compared, unnamed):
        total = np.asarray(np.sum([*each.values()], axis=0, dtype=np.uint64))
        _, first, group, times = np.unique(total, True, True, True)
        count = len(rows) - len(first)
        if (
            each
            and count > 1
            and len(rows) >= _SETS
            and _is_no_chance(total, each, first, times)
        ):
            copy = np.flatnonzero(first[group] != np.arange(len(rows)))[0]
            pair = rows[[copy, first[group[copy]]]] + 1
            return [
                f"{count} of {len(rows)} rows repeat another in all columns but names "
                f"of rows (row {pair[0]} repeats row {pair[1]}), more than by chance: "
                f"exported twice? Delete the copies.{_SHARED[unit]} A test row whose "
                "copy trains flatters the score. This looked at the rows: keep it to "
                "yourself"
            ]
    return []


def _is_no_chance(
    total: np.ndarray,
    by_column: Mapping[str, np.ndarray],
    first: np.ndarray,
    times: np.ndarray,
) -> bool:
    """Whether rows that agree in all columns but any one agree in it, too, too often.

    Let A and B be the pairs of rows that agree in all other columns and in this one, or
    not in this one, and p the part of all pairs that agree in it. By chance
    A ≈ B p / (1 - p) in at least one column. Frequent combinations are left out. Rows
    that are all repeated k, 2k, … times are no chance either.

    Args:
      total: (rows,) uint64 sums of `by_column`.
      by_column: (rows,) uint64 each.
      first: (sets,) a row of each set of equal rows.
      times: (sets,) rows of each set.
    """
    if len(times) >= _SETS and np.gcd.reduce(times) > 1:
        return True
    first, times = first[times > 1], times[times > 1]
    for key in by_column.values():
        other = _pairs(np.array([len(key)])) - _pairs(np.unique_counts(key).counts)
        if not other:  # constant
            continue
        odds = _pairs(np.array([len(key)])) / other - 1
        rest, counts = np.unique_counts(total - key)
        is_rare = counts[np.searchsorted(rest, (total - key)[first])] <= _FEW
        same = _pairs(times[is_rare])
        different = _pairs(counts[counts <= _FEW]) - same
        if same <= _EXCESS * (different + 1) * odds:
            return False
    return True


def _pairs(counts: np.ndarray) -> float:
    return float(counts @ (counts - 1.0)) / 2
