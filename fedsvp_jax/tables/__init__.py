"""Files of one's own: a table by its schema, and arrays. No pickle is loaded."""

from pathlib import Path

from fedsvp_jax.data.dataset import Dataset, Facts, facts_of
from fedsvp_jax.data.sources import TableSettings
from fedsvp_jax.tables.npz import load_npz, npz_facts
from fedsvp_jax.tables.table import from_table, load_csv

__all__ = ["facts", "from_table", "load"]


def load(name: str, path: Path, settings: TableSettings) -> Dataset:
    """The data set of a file, `npz` or `csv`.

    Raises:
      OSError, ValueError: as `load_npz` and `load_csv`.
    """
    return {"npz": load_npz, "csv": load_csv}[name](path, settings)


def facts(name: str, path: Path, settings: TableSettings) -> Facts:
    """The facts that decide defaults; the inputs of an npz file stay unread.

    Raises:
      OSError, ValueError: as `load`.
    """
    if name == "npz":
        return npz_facts(path, settings)
    return facts_of(load_csv(path, settings))
