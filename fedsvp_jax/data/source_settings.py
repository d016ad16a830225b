"""The settings that choose a data set and say what its columns are."""

import dataclasses
from functools import partial
from pathlib import Path

from fedsvp_jax.core.settings import FEATURE_MODELS, Settings, setting

from .tables.schema import Schema, read_schema

_of_table = partial(setting, needs="dataset=csv")
_of_file = partial(setting, needs="dataset=csv|npz")


@dataclasses.dataclass(frozen=True)
class TableSettings(Settings):
    """Table: what the columns of a file of one's own are."""

    schema: str | None = _of_file(
        None,
        "The public schema of the table, a TOML file that `fedsvp schema` drafts: "
        "types, categories, bounds, fill values, classes, label and client column. Of "
        "an npz file, the categories of its columns. Default: what the records tell; "
        "every claim is then nominal.",
    )
    classes: int | None = setting(
        None,
        "Public number of classes. Default: the largest label + 1; every claim is then "
        "nominal.",
        at_least=2,
        needs="dataset=npz",
    )
    label_column: str | None = _of_table(
        None, "The column of the class, texts or whole numbers. Default: the schema's."
    )
    client_column: str | None = _of_table(
        None,
        "The column that says whose each row is (a hospital, a user): one client per "
        "value with --partition=by_writer, then the default. It is no feature. "
        "Default: the schema's; `none` for none.",
    )
    drop_columns: str | None = _of_table(
        None,
        "Columns that are left out, with commas between them (names, ids). A name that "
        "holds a comma may stand in quotes. `*`: all that the schema does not name.",
    )
    test_fraction: float = _of_table(
        0.2,
        "Part of the rows that is kept for the test, drawn once and the same for every "
        "seed. The schema's comes first, and a column `split` of train and test "
        "decides instead, if there is one.",
        above=0,
        below=1,
    )

    test_data: str | None = _of_file(
        None,
        "A file of test rows, of people who agreed that what is scored on them is "
        "published, and who are in no client's rows: a table with the table's "
        "columns of features and classes, or an .npz file with x_test and y_test. "
        "Default: rows of the table itself, whose scores stay with you.",
    )

    @property
    def test_path(self) -> Path | None:
        """The path of `test_data`."""
        return None if self.test_data is None else Path(self.test_data).expanduser()

    def declared(self) -> Schema | None:
        """The schema of `schema`; None where no file is named.

        Raises:
          OSError, ValueError: as `read_schema`.
        """
        if self.schema is None:
            return None
        return read_schema(Path(self.schema).expanduser())


@dataclasses.dataclass(frozen=True)
class DataSettings(TableSettings):
    """Data: where the examples come from."""

    dataset: str = setting(
        "digits",
        "digits | mnist | fashion_mnist | emnist | cifar10 | cifar100 | femnist | "
        "npz | csv (a table: .csv, .parquet, .xlsx, .sav, .dta, .sas7bdat) | adult | "
        "store (clients on disk, by fedsvp build_store) | tfds:NAME",
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
        needs="model=" + "|".join(FEATURE_MODELS),
    )
