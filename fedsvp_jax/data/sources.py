"""Data sets by name, and the settings that choose one."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsvp_jax import extras
from fedsvp_jax.data.dataset import Dataset, Facts
from fedsvp_jax.settings import FEATURE_MODELS, Settings, setting

_FILES = ("npz", "csv")  # read by `tables`; `datasets` reads published data sets
_TABLE = ("dataset", ("csv",))


@dataclasses.dataclass(frozen=True)
class TableSettings(Settings):
    """Table: what the columns of a file of one's own are."""

    schema: str | None = setting(
        None,
        "The public schema of the table, a TOML file that `fedsvp schema` drafts: "
        "types, categories, bounds, fill values, classes, label and client column. Of "
        "an npz file, the categories of its columns. Default: what the records tell; "
        "every claim is then nominal.",
        needs=("dataset", ("csv", "npz")),
    )
    classes: int | None = setting(
        None,
        "Public number of classes. Default: the largest label + 1; every claim is then "
        "nominal.",
        at_least=2,
        needs=("dataset", ("npz", "mnist", "fashion_mnist", "emnist")),
    )
    label_column: str | None = setting(
        None,
        "The column of the class, texts or whole numbers. Default: the schema's.",
        needs=_TABLE,
    )
    client_column: str | None = setting(
        None,
        "The column that says whose each row is (a hospital, a user): one client per "
        "value with --partition=by_writer, then the default. It is no feature. "
        "Default: the schema's; `none` for none.",
        needs=_TABLE,
    )
    drop_columns: str | None = setting(
        None,
        "Columns that are left out, with commas between them (names, ids).",
        needs=_TABLE,
    )
    test_fraction: float = setting(
        0.2,
        "Part of the rows that is kept for the test, drawn once and the same for every "
        "seed. The schema's comes first, and a column `split` of train and test "
        "decides instead, if there is one.",
        above=0,
        below=1,
        needs=_TABLE,
    )

    test_data: str | None = setting(
        None,
        "A file of test rows, of people who agreed that what is scored on them is "
        "published, and who are in no client's rows: a CSV file with the table's "
        "columns of features and classes, or an .npz file with x_test and y_test. "
        "Default: rows of the table itself, whose scores stay with you.",
        needs=("dataset", ("csv", "npz")),
    )

    @property
    def dropped(self) -> list[str]:
        """The names of `drop_columns`."""
        names = (self.drop_columns or "").split(",")
        return [name.strip() for name in names if name.strip()]

    @property
    def test_path(self) -> Path | None:
        """The path of `test_data`."""
        return None if self.test_data is None else Path(self.test_data).expanduser()

    def declared(self) -> Any:
        """The schema (`tables.schema.Schema`); None without one.

        Raises:
          OSError, ValueError: as `read_schema`.
        """
        if self.schema is None:
            return None
        return extras.around("tables.schema").read_schema(
            Path(self.schema).expanduser()
        )


@dataclasses.dataclass(frozen=True)
class DataSettings(TableSettings):
    """Data: where the examples come from."""

    dataset: str = setting(
        "digits",
        "digits | mnist | fashion_mnist | emnist | cifar10 | cifar100 | femnist | "
        "npz | csv | adult | store (clients on disk, by experiments.build_store) | "
        "tfds:NAME",
    )
    data_dir: str | None = setting(
        None,
        "Folder with the standard files of the data set, or the file of npz and csv "
        "(digits needs none).",
    )
    max_test_examples: int | None = setting(
        None,
        "Evaluate on this many test examples, evenly spaced in the test set. Default: "
        "on all of them.",
        at_least=1,
    )
    features_dir: str | None = setting(
        None,
        "Folder that keeps the features of the images, which are computed once for a "
        "data set. Default: fedsvp_jax/features in the user's cache.",
        needs=("model", FEATURE_MODELS),
    )


def published() -> Mapping[str, Any]:
    """`datasets.DATA_SETS`: by name, or by what stands before `:`."""
    data_sets: Mapping[str, Any] = extras.around("datasets").DATA_SETS
    return data_sets


def load(
    name: str,
    data_dir: str | Path | None = None,
    columns: TableSettings | None = None,
) -> Dataset:
    """Reads the data set `name` from its standard files and checks it.

    Args:
      name: npz, csv, a published data set, or `tfds:` and the name that
        tensorflow-datasets uses.
      data_dir: the folder that holds the data set's files, or its parent folder. For
        `npz` and `csv` it is the file; for the MNIST format it may also be the file
        of the training images. `digits` needs none; `tfds:NAME` uses TFDS's own
        folder if none is given.
      columns: what the columns of a CSV file are, and what was declared of a file.

    Raises:
      FileNotFoundError: a folder or file is missing.
      ValueError: the name is unknown, data_dir is needed and not given, or a file is
        damaged.
    """
    folder = Path(data_dir).expanduser() if data_dir is not None else None
    declared = columns or TableSettings()
    needed = f"dataset {name} needs data_dir, the folder of its files"
    if name in _FILES:
        if folder is None:
            raise ValueError(needed)
        table: Dataset = extras.around("tables").load(name, folder, declared)
        return table
    family, _, inner = name.partition(":")
    source = published().get(family)
    if source is None or bool(inner) != (family == "tfds"):
        names = ", ".join((*_FILES, *published()))
        raise ValueError(f"dataset must be one of {names}:NAME, got {name!r}")
    if folder is None and source.needs_folder:
        raise ValueError(needed)
    dataset: Dataset = source.load(inner or name, folder, declared)
    return dataset


def facts(config: DataSettings) -> Facts:
    """The facts that defaults depend on; the inputs of large data sets are not read.

    They are empty for data sets whose defaults do not depend on them.

    Raises:
      FileNotFoundError, ValueError: as `load`.
    """
    result: Facts = Facts()
    path = Path(config.data_dir or "").expanduser()
    if config.dataset not in (*_FILES, "store"):
        result = published()[config.dataset.partition(":")[0]].facts
    elif config.data_dir and config.dataset == "store":
        result = extras.around("store").facts(path)
    elif config.data_dir:
        result = extras.around("tables").facts(config.dataset, path, config)
    return result
