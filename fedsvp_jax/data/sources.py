"""Data sets by name."""

import functools
from pathlib import Path

from fedsvp_jax.core.files import sha256
from fedsvp_jax.core.settings import part

from .dataset import Dataset, Facts, facts_of
from .datasets import DATA_SETS, FACTS, WITHOUT_FOLDER
from .source_settings import DataSettings, TableSettings
from .store.folder import open_store
from .tables.npz import load_npz

_FILES = ("npz", "csv")  # of one's own; `DATA_SETS` are published


def load(
    name: str, data_dir: str | Path | None = None, columns: TableSettings | None = None
) -> Dataset:
    """Reads the data set `name` from its standard files and checks it.

    Args:
      name: npz, csv, a published data set, or `tfds:` and the name that
        tensorflow-datasets uses.
      data_dir: the folder that holds the data set's files, or its parent folder. For
        `npz` and `csv` it is the file. `digits` needs none; `tfds:NAME` uses TFDS's own
        folder if none is given.
      columns: what the columns of a CSV file are, and what was declared of a file.

    Raises:
      FileNotFoundError: a folder or file is missing.
      ValueError: the name is unknown, data_dir is needed and not given, or a file is
        damaged.
    """
    family, _, inner = name.partition(":")
    names = (*_FILES, *DATA_SETS)
    if family not in names or bool(inner) != (family == "tfds"):
        raise ValueError(
            f"dataset must be one of {', '.join(names)}:NAME, got {name!r}"
        )
    if data_dir is None and family not in WITHOUT_FOLDER:
        raise ValueError(f"dataset {name} needs data_dir, the folder of its files")
    folder = Path(data_dir).expanduser() if data_dir is not None else None
    if folder and name in _FILES:
        return _of_file(name, folder, columns or TableSettings())
    return DATA_SETS[family](inner or name, folder)


def facts(config: DataSettings) -> Facts:
    """The facts that defaults depend on; the inputs of large data sets are not read.

    They are empty for data sets whose defaults do not depend on them.

    Raises:
      FileNotFoundError, ValueError: as `load`.
    """
    if config.dataset not in (*_FILES, "store"):
        return FACTS.get(config.dataset, Facts())
    if not config.data_dir:
        return Facts()
    path = Path(config.data_dir).expanduser()
    if config.dataset == "store":
        if not (path / "store.json").is_file():  # not yet
            return Facts()
        store = open_store(path)
        return Facts(len(store.train_labels), store.clients[:, 1])
    return facts_of(_of_file(config.dataset, path, config))


def _of_file(name: str, path: Path, settings: TableSettings) -> Dataset:
    """The data set of a user's file, read once for its facts and for its rows."""
    columns = part(TableSettings, settings)
    paths = (path, columns.test_data, columns.schema)
    digests = [sha256(Path(file).expanduser()) for file in paths if file is not None]
    return _of_digests(name, path, columns, tuple(digests))


@functools.lru_cache(maxsize=1)
def _of_digests(
    name: str, path: Path, settings: TableSettings, _: tuple[str, ...]
) -> Dataset:
    """The data set of files that have these digests."""
    if name == "npz":
        return load_npz(path, settings)
    from .tables.table import load_file  # pyarrow starts slowly

    return load_file(path, settings)
