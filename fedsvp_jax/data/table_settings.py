"""The settings of a file of one's own: what its columns are, and what is declared."""

import dataclasses
from pathlib import Path
from typing import Any

from fedsvp_jax.extras import around
from fedsvp_jax.settings import Settings, setting

_NEEDS = ("dataset", ("csv",))


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
        needs=_NEEDS,
    )
    client_column: str | None = setting(
        None,
        "The column that says whose each row is (a hospital, a user): one client per "
        "value with --partition=by_writer, then the default. It is no feature. "
        "Default: the schema's.",
        needs=_NEEDS,
    )
    drop_columns: str | None = setting(
        None,
        "Columns that are left out, with commas between them (names, ids).",
        needs=_NEEDS,
    )
    test_fraction: float = setting(
        0.2,
        "Part of the rows that is kept for the test, drawn once and the same for every "
        "seed. The schema's comes first, and a column `split` of train and test "
        "decides instead, if there is one.",
        above=0,
        below=1,
        needs=_NEEDS,
    )

    @property
    def dropped(self) -> list[str]:
        """The names of `drop_columns`."""
        names = (self.drop_columns or "").split(",")
        return [name.strip() for name in names if name.strip()]

    def declared(self) -> Any:
        """The schema (`tables.schema.Schema`); None without one.

        Raises:
          OSError, ValueError: as `read_schema`.
        """
        if self.schema is None:
            return None
        return around("tables.schema").read_schema(Path(self.schema).expanduser())
