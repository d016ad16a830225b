"""A table from a file: CSV, Parquet, a workbook, or what SPSS, Stata and SAS write."""

from pathlib import Path
from typing import Any

from fedsvp_jax import extras
from fedsvp_jax.tables import cells, csv_file, files
from fedsvp_jax.tables.cells import Columns
from fedsvp_jax.tables.csv_file import Form

_WORKBOOKS = (".xlsx", ".xlsm")
_STATISTICS = {  # by ending, the reader of pyreadstat
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def read_table(
    path: Path, encoding: str | None = "utf-8"
) -> tuple[Columns, Form | None]:
    """The columns by name, and how the text of a CSV file is written.

    Labels of values, as SPSS and Stata keep them, stand in the place of their codes.

    Args:
      path: of the file; every ending but those of the other formats is a CSV file.
      encoding: of a CSV file, as `csv_file.form_of` takes it.

    Raises:
      MissingExtra: the reader's library is not installed.
      OSError: it cannot be read.
      ValueError: it is no such file.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        reader: Any = extras.needed("pyarrow.parquet", "tables", path.name).read_table
        return columns_of(_opened(path, reader), str(path)), None
    if ending in _WORKBOOKS:
        extras.needed("openpyxl", "tables", path.name)
        pandas = extras.needed("pandas", "tables", path.name)
        options = {"sheet_name": None, "dtype": object, "na_filter": False}
        sheets = _opened(path, pandas.read_excel, **options)
        filled = [name for name, sheet in sheets.items() if sheet.size]
        if len(filled) != 1:
            raise ValueError(
                f"{path} has {len(filled)} sheets with a table "
                f"({', '.join(filled)}); leave one in it"
            )
        return columns_of(sheets[filled[0]], str(path)), None
    if ending in _STATISTICS:
        pyreadstat = extras.needed("pyreadstat", "tables", path.name)
        reader = getattr(pyreadstat, _STATISTICS[ending])
        options = {} if ending == ".xpt" else {"apply_value_formats": True}
        return columns_of(_opened(path, reader, **options)[0], str(path)), None
    form = csv_file.form_of(path, encoding)
    return csv_file.read_columns(path, form), form


def _opened(path: Path, reader: Any, **options: Any) -> Any:
    try:
        return reader(path, **options)
    except OSError:
        raise
    except Exception as error:  # every library answers damage with errors of its own
        why = files.reason(error)
        raise ValueError(f"{path} is no {path.suffix} file ({why})") from error


def columns_of(table: Any, source: str, image: str | None = None) -> Columns:
    """A table's columns by name, of any object that maps names to columns.

    Those of images are left out.

    Raises:
      ValueError: there are no rows, two names are one, or a column cannot be read.
    """
    if isinstance(table, Columns):
        return table
    columns = Columns()
    for name in getattr(table, "column_names", None) or list(table):
        if name == image:
            continue
        key = cells.normal(str(name))
        if key in columns:
            raise ValueError(
                f"{source} has two columns of the name {files.quoted(key)}; rename one"
            )
        columns[key] = cells.column_of(table[name], f"{source}: column {key}")
    return columns
