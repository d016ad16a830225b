"""Results as pandas frames, read from the files of runs and sweeps.

Values that are lists (Shapley values, utilities) or dictionaries (ε spent by
accounting method) become columns: `shapley_values_0`, `epsilon_spent_rdp`. Null in a
file becomes a missing value.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsvp_jax.core import extras
from fedsvp_jax.report import read, tables

if TYPE_CHECKING:
    import pandas


def rounds(run_dir: str | Path) -> "pandas.DataFrame":
    """One row per round: metrics.jsonl of one run.

    Raises:
      ValueError: a file is missing or damaged, or the folder is a sweep's.
      ImportError: pandas is not installed.
    """
    return _frame(read.read_run(run_dir).metrics)


def clients(run_dir: str | Path) -> "pandas.DataFrame":
    """One row per upload: clients.jsonl of one run; errors as for `rounds`."""
    return _frame(read.read_run(run_dir).clients)


def results(sweep_dir: str | Path) -> "pandas.DataFrame":
    """One row per cell and round: results.jsonl of one sweep.

    Raises:
      ValueError: a file is missing or damaged.
      ImportError: pandas is not installed.
    """
    return _frame(read.read_sweep(sweep_dir).results)


def table(sweep_dir: str | Path) -> "pandas.DataFrame":
    """One row per mechanism and ε, as in table.csv; errors as for `results`."""
    rows = tables.summarize(read.read_sweep(sweep_dir).results)
    return _pandas().DataFrame(tables.columns(rows))


def _frame(rows: Sequence[read.Row]) -> Any:
    return _pandas().DataFrame([dict(_flat(row)) for row in rows])


def _flat(row: read.Row) -> Iterable[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from ((f"{name}_{key}", item) for key, item in value.items())
        elif isinstance(value, list) and name != "diverged_clients":
            yield from ((f"{name}_{index}", item) for index, item in enumerate(value))
        else:
            yield name, value


def _pandas() -> Any:
    with extras.needed("frames", "a frame"):
        import pandas
    return pandas
