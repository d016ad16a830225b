"""A "Table 1": rows of each class by the parts of each column, from counts with noise.

The parts are those of the public schema: categories, or intervals of a number. They are
cut at its knots where it has any, else at the quarters of its scale (of bounds that are
1 apart, as 0 and 1 are, at the middle).
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from fedsvp_jax.core.files import Record

from .schema import SchemaColumn
from .scores import SHARES, root_interval


def _cuts(column: SchemaColumn) -> np.ndarray:
    """Between intervals, by the first feature of a number, which is in [−1, 1]."""
    points = np.array(column.knots)
    if column.type == "date":  # of whole days
        points = np.ceil(np.quantile(column.bounds, [0.25, 0.5, 0.75]))
    if len(points):
        return column.scaled(points)[:, 0]
    return np.array([0.0] if np.ptp(column.bounds) == 1 else [-0.5, 0.0, 0.5])


def num_parts(column: SchemaColumn) -> int:
    """How many parts a column has."""
    return len(column.values) or len(_cuts(column)) + 1


def parts_of(columns: Mapping[str, SchemaColumn], inputs: np.ndarray) -> np.ndarray:
    """(n, parts of all columns) 0 or 1: which part of each column a row is in.

    Args:
      columns: all features, in their order.
      inputs: (n, f) features.
    """
    parts, start = [np.zeros((len(inputs), 0))], 0
    for column in columns.values():
        features = inputs[:, start : start + column.width]
        start += column.width
        codes = np.digitize(features[:, 0], _cuts(column))
        if column.values:  # the nearest, since other categories are a mean of all
            each = column.category_features
            codes = (features @ each.T - (each**2).sum(1) / 2).argmax(1)
        parts.append(np.eye(num_parts(column))[codes])
    return np.hstack(parts)


def describe(
    columns: Mapping[str, SchemaColumn], counts: np.ndarray, variance: float
) -> Record:
    """What counts with noise say of each column, by name.

    Args:
      columns: as of `parts_of`.
      counts: (C, parts of all columns) rows by class, with independent noise.
      variance: of the noise of each.

    Returns:
      values; cuts between intervals (dates and times are texts); counts; and of two
      classes by part shares, of the second class, and odds_ratios against the part with
      most rows, the reference: [value, the two ends of its 95 % interval], with
      sampling and noise (`root_interval`). None is an odds ratio beyond all numbers.
      An interval holds everything where a part's rows may be noise alone.
    """
    described = {}
    parts = np.split(counts, np.cumsum([*map(num_parts, columns.values())]), axis=1)
    for (name, column), cells in zip(columns.items(), parts, strict=False):
        cuts = [] if column.values else map(column.unscaled, _cuts(column))
        described[name] = {
            "values": column.values,
            "cuts": [c if isinstance(c, float) else str(c) for c in cuts],
            "counts": cells.tolist(),
        }
        if len(cells) == 2:
            described[name] |= _compare(cells, variance)
    return described


def _compare(cells: np.ndarray, variance: float) -> Record:
    """What `describe` says of a column's (2, parts) counts."""
    places = np.eye(cells.shape[1])
    estimate = partial(root_interval, counts=cells, covariance=variance * places)
    reference = cells.sum(0).argmax()
    shares, ratios = [], []
    for part, of_part in zip(cells.T, places, strict=True):
        # A part whose rows are below three standard deviations may be noise alone.
        unknown = 0 if part.sum() > (18 * variance) ** 0.5 else np.inf
        error = unknown + part.sum().clip(1) * SHARES * (1 - SHARES)
        shares.append(estimate(of_part * [[0], [1]], of_part, error, 1))
        # T = (1 − θ)·xy − θ·vw is 0 where θ/(1 − θ) is the odds ratio xy/vw.
        (v, x), (y, w), of_reference = part, cells[:, reference], places[reference]
        a = np.stack([x * of_reference, y * of_part])
        b = a + np.stack([w * of_part, v * of_reference])
        # Of no fewer than half a row of each (Haldane 1956), with
        # SE² = θ(1 − θ)·xyvw·(1/x + 1/y + 1/v + 1/w), near Woolf's (1955) of the log.
        four = np.maximum([v, w, x, y], 0.5)
        error = unknown + SHARES * (1 - SHARES) * four.prod() * (1 / four).sum()
        odds = estimate(a, b, error, 2)
        ratios.append([q / (1 - q) if q < 1 else None for q in odds])
    return {"reference": reference, "shares": shares, "odds_ratios": ratios}
