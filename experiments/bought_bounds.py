"""Bounds of a drafted schema that private quantiles buy: `fedsvp schema`."""

import dataclasses

import numpy as np

from fedsvp_jax.data.tables import cells, encoding
from fedsvp_jax.data.tables.schema import Schema
from fedsvp_jax.mechanisms import private_bounds

_PART = 20  # of the rows one may lie beyond each bound
_WITHIN = {"date": (-1e5, 1e5), "time": (0.0, 23.9)}  # that have a date or a time


def with_bought_bounds(schema: Schema, table: cells.Columns, epsilon: float) -> Schema:
    """The draft whose bounds private quantiles bought, and whose fills lie amid them.

    Columns of the bounds 0 and 1 keep them. The first row of each person is asked.

    Args:
      schema: a draft.
      table: its columns by name.
      epsilon: of all bounds together.

    Raises:
      ValueError: no column has bounds, or the table has too few rows.
    """
    with_bounds = {
        name: column
        for name, column in schema.columns.items()
        if column.bounds not in ((0, 0), (0, 1))  # a category has none
    }
    rows = np.arange(len(next(iter(table.values()))))
    if schema.person is not None:
        rows = np.unique(cells.distinct(table[schema.person])[1], return_index=True)[1]
    draws = 2 * len(with_bounds)
    beyond = private_bounds.rows_beyond(epsilon / draws) if draws * epsilon > 0 else 0
    if not 0 < _PART * beyond <= len(rows):
        raise ValueError(
            f"bounds_epsilon = {epsilon:g} for {len(with_bounds)} columns leaves about "
            f"{beyond} rows beyond each bound, of {len(rows)}, and at most 1 of "
            f"{_PART} may lie there: raise it, leave columns out (--drop_columns), or "
            "state bounds that a form or a codebook gives"
        )
    columns = dict(schema.columns)
    for name, column in with_bounds.items():
        values, missing = encoding.marked(table[name], column, schema.notation)
        values[missing] = np.nan
        low, high = private_bounds.private_bounds(
            values[rows], epsilon / draws, _WITHIN.get(column.type, (-np.inf, np.inf))
        )
        columns[name] = dataclasses.replace(
            column,
            bounds=(low, high),
            fill=float(f"{(low + high) / 2:.6g}"),
            log=False,
            from_data=True,  # its type is the records' still
        )
    return dataclasses.replace(
        schema,
        columns=columns,
        bounds_epsilon=epsilon,
        bounds_draws=draws,
        bounds_unit=schema.unit,
    )
