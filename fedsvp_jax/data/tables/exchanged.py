"""Two-valued columns, the class among them, whose codes seem exchanged at a client."""

from collections.abc import Iterator, Sequence

import numpy as np

from ..partition import rows_by_owner
from . import files, scores
from .schema import Schema

_RANKED = 0.65  # AUC of the median client, from which on a column is compared


def questions(
    schema: Schema,
    inputs: np.ndarray,
    labels: np.ndarray,
    of_client: np.ndarray,
    clients: Sequence[str],
) -> Iterator[str]:
    """What to ask of clients at which the two codes of a column seem exchanged.

    A client's rows are ranked along the covariance of the code and the ranks of all
    other columns within the other clients. It is asked whose AUC lies 3 standard errors
    (Mann and Whitney 1947) below 1/2, where that of the median client is above .65.

    Args:
      schema: of the table.
      inputs: (rows, f) features.
      labels: (rows,) int32.
      of_client: (rows,) which client's each row is.
      clients: their names.
    """
    from scipy.stats import rankdata

    table, start = rankdata(np.column_stack([inputs, labels]), axis=0), 0
    parts: dict[str | None, slice] = {}
    for name, column in (*schema.features.items(), (schema.label, None)):
        values, end = table[:, start], start + (column.width if column else 1)
        if ((values == values.min()) | (values == values.max())).all():
            parts[name] = slice(start, end)
        start = end
    codes = table[:, [part.start for part in parts.values()]] > (len(table) + 1) / 2
    whose = rows_by_owner(of_client)
    centred = codes.astype(np.float32)
    for rows in whose:
        centred[rows] -= centred[rows].mean(0)
    total = centred.T @ table
    ranked = {name: list[tuple[float, str]]() for name in parts}
    for client, rows in zip(clients, whose, strict=True):
        directions = total - centred[rows].T @ table[rows]
        for direction, code, (name, part) in zip(
            directions, codes[rows].T, parts.items(), strict=True
        ):
            direction[part] = 0
            area = scores.auc(table[rows] @ direction, code)
            if area is not None:
                variance = scores.auc_variance(np.array(0.5), code.sum(), (~code).sum())
                is_low = area < 0.5 - 3 * variance**0.5
                ranked[name].append((area, client if is_low else ""))
    for name, areas in ranked.items():
        names = [client for _, client in areas if client]
        if names and np.median([area for area, _ in areas]) > _RANKED:
            yield (
                f"column {name} of {files.shortened(names)}: are its two values, or "
                "those of a column that goes with it, exchanged there? This looked at "
                "the rows: keep it to yourself"
            )
