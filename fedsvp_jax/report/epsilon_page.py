"""epsilon.html: what each ε of the run is worth, and epsilon.json with its numbers.

For those who decide on an ε: a slider over the ε that were computed, accuracy with its
interval beside a reference without privacy and guessing, and risk as natural
frequencies. The page's script only places what stands in its data; every number and
sentence is made here, from a sweep's files.
"""

from collections.abc import Sequence
from pathlib import Path

from fedsvp_jax import mechanisms
from fedsvp_jax.core.files import AnyPath, Record, write_json

from . import guarantees, headline, labels, page, read, tables


def document(sweep: read.SweepFiles, *, rows: str = "") -> Record:
    """The content of epsilon.json.

    Args:
      sweep: the files of a finished sweep.
      rows: whose rows were trained and tested on, in words, if not the data set's.

    Returns:
      `points`, one per mechanism and ε; none where nothing is claimed.
    """
    summary = tables.summarize(sweep.results, sweep.cells)
    first: Record = sweep.cells[0] if sweep.cells else {}
    bare = next((row for row in summary if row.mechanism == "none"), None)
    test_rows = first.get("test_rows")
    reference = bare and _accuracy(bare, test_rows)
    uncovered = (
        ", which no ε covers" if headline.filled("unprotected", sweep.config) else ""
    )
    by_group: dict[tables.Group, list[Record]] = {}
    for cell in sweep.cells:
        by_group.setdefault(tables.group_of(cell), []).append(cell)
    points = [_point(row, by_group.get(row.group, []), test_rows) for row in summary]
    return {
        "format": 1,
        "data": labels.data_name(sweep.config),
        "rows": rows or f"the data set's test rows{uncovered}",
        "reference": reference and reference | {"name": "FedAvg"},
        "guessing": first.get("guessing"),
        "test_rows": test_rows,
        "points": [point for point in points if point is not None],
    }


def _accuracy(row: tables.SummaryRow, test_rows: int | None) -> Record | None:
    """Mean of the last five evaluated rounds and its 95 % interval, and AUC of tables.

    By Student's t over seeds; of one seed that of its test rows (Wilson 1927).
    """
    mean, ends = row.accuracy, row.interval()
    if mean is None:
        return None
    interval = f"95 % interval of the mean over {row.num_seeds} seeds"
    if ends is None:
        interval = "interval not known"
        ends = (mean, mean)
        if test_rows:
            interval = f"95 % interval of {test_rows} test rows, 1 seed"
            ends = tables.wilson(mean, test_rows)
    return {
        "mean": mean,
        "lower": ends[0],
        "upper": ends[1],
        "interval": interval,
        "seeds": row.num_seeds,
        "auc": row.scores["auc"][0],
        "auc_ends": row.interval("auc"),
    }


def _point(
    row: tables.SummaryRow, cells: Sequence[Record], test_rows: int | None
) -> Record | None:
    """The point of a mechanism and ε with its cells; None without a finite claim."""
    accuracy = _accuracy(row, test_rows)
    claims = guarantees.strongest(cells)
    if accuracy is None or not claims:
        return None
    main_claims = [claim for claim in claims if claim["adversary"] == row.adversary]
    uploads_left = [
        cell["uploads_left"] for cell in cells if cell.get("uploads_left") is not None
    ]
    return {
        "mechanism": mechanisms.about(row.mechanism).label,
        "epsilon": row.total_epsilon or (main_claims or claims)[0]["epsilon"],
        "promised": row.total_epsilon is not None,
        "adversary": row.adversary,
        "accuracy": accuracy,
        "rounds": row.num_rounds,
        "uploads_left": min(uploads_left, default=None),
        "guarantees": claims,
    }


def write_epsilon_page(folder: AnyPath, content: Record) -> list[Path]:
    """Writes FOLDER/epsilon.html and epsilon.json; neither where there is no point.

    Returns:
      The paths.
    """
    if not content["points"]:
        return []
    place = Path(folder)
    html = page.write(place / "epsilon.html", "epsilon.html", data=content)
    write_json(place / "epsilon.json", content)
    return [html, place / "epsilon.json"]
