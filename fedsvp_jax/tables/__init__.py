"""Files of one's own: a table by its schema, and arrays. No pickle is loaded."""

import dataclasses
import functools
import hashlib
from pathlib import Path

from fedsvp_jax.data.dataset import Dataset, Facts, facts_of
from fedsvp_jax.data.sources import TableSettings
from fedsvp_jax.tables.npz import load_npz, npz_facts
from fedsvp_jax.tables.table import from_table, load_file

__all__ = ["facts", "from_table", "load"]


def load(name: str, path: Path, settings: TableSettings) -> Dataset:
    """The data set of a file, `npz` or `csv`.

    Raises:
      OSError, ValueError: as `load_npz` and `load_file`.
    """
    if name == "npz":
        return load_npz(path, settings)
    fields = [field.name for field in dataclasses.fields(TableSettings)]
    own = TableSettings(**{name: getattr(settings, name) for name in fields})
    paths = [path, own.test_path, own.schema and Path(own.schema).expanduser()]
    return _table(path, own, tuple(_digest(one) for one in paths if one))


@functools.lru_cache(maxsize=1)
def _table(path: Path, settings: TableSettings, content: tuple[str, ...]) -> Dataset:
    """`load_file`, which a command asks for its facts and for its rows, once."""
    return load_file(path, settings)


def _digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def facts(name: str, path: Path, settings: TableSettings) -> Facts:
    """The facts that decide defaults; the inputs of an npz file stay unread.

    Raises:
      OSError, ValueError: as `load`.
    """
    if name == "npz":
        return npz_facts(path, settings)
    return facts_of(load(name, path, settings))
