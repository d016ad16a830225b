"""The public schema of a table: what is known of its columns without the records.

A schema is a TOML file that `fedsvp schema DATA.csv` drafts:

    schema = 1
    unit = "row"                 # what is protected: one row, or all of a client
    decimal = "."
    encoding = "cp1252"          # left out: "utf-8"
    test_fraction = 0.2          # where no column `split` says train or test

    [label]
    column = "death"
    classes = ["alive", "dead"]

    [client]
    column = "hospital"          # leave it out where a table has no such column

    [columns.creatinine]
    type = "number"              # x becomes 2 u - 1, u = (x - low) / (high - low)
    bounds = [0.4, 10]           # numbers beyond are clamped
    log = true                   # of few large ones: ln(1+x-low) / ln(1+high-low)
    fill = 1.0                   # the value of a cell that is missing
    missing = ["-9"]             # that is missing too, beside blanks, NA, ?, ...

    [columns.town]
    type = "category"            # one feature for each value
    values = ["Bern", "Basel", "*"]  # * takes all others, and blanks: their mean

    [columns.admission]
    type = "date"                # days since 1970-01-01, scaled as a number
    bounds = [2010-01-01, 2025-12-31]

    [columns.id]
    type = "drop"                # no feature

What was read off the records has `from_data = true` beside it: one record more, and the
features of all others may be other ones. Every claim is nominal then (`from_records`),
until someone states the same without the records and removes the line.
"""

import dataclasses
import datetime
import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsvp_jax.settings import unknown
from fedsvp_jax.tables import column_values, csv_file, files

OTHERS = "*"  # the category of whatever has none of its own
MOST_CLASSES = 1000
MOST_VALUES = 200  # of a column that nobody declared
VERSION = 1
TYPES = {  # and the keys that each may have
    "number": {"bounds", "fill", "missing", "log"},
    "category": {"values"},
    "date": {"bounds", "fill", "missing"},
    "drop": set(),
}
UNITS = ("row", "client")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclasses.dataclass(frozen=True)
class SchemaColumn:
    """What is declared of one column that is no label and no client.

    Attributes:
      type: of `TYPES`.
      bounds: (low, high) of numbers; of dates in days since 1970-01-01.
      fill: the number (or day) of a missing cell; None refuses such cells.
      missing: further texts that mean a missing cell.
      values: the categories; `OTHERS` takes all others.
      log: whether numbers are scaled by their logarithms.
      from_data: whether the records said so.
    """

    type: str
    bounds: tuple[float, float] = (0.0, 0.0)
    fill: float | None = None
    missing: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    log: bool = False
    from_data: bool = False

    @property
    def width(self) -> int:
        """How many features it becomes."""
        return {"drop": 0, "category": len(self.values)}.get(self.type, 1)


@dataclasses.dataclass(frozen=True)
class Schema:
    """The columns of a table by name, in the order of its features.

    Attributes:
      columns: all but label and client.
      label: the column of the class; None of arrays (npz), which have none.
      classes: in their order.
      classes_from_data: whether the records said so.
      client: the column that says whose each row is, or None.
      unit: of privacy, of `UNITS`.
      decimal: the mark before a fraction.
      encoding: of a CSV file without the mark of UTF-16, of `csv_file.ENCODINGS`.
      test_fraction: part of the rows for the test; None: the setting decides.
    """

    columns: Mapping[str, SchemaColumn]
    label: str | None = None
    classes: tuple[str, ...] = ()
    classes_from_data: bool = False
    client: str | None = None
    unit: str = "row"
    decimal: str = "."
    encoding: str = "utf-8"
    test_fraction: float | None = None

    @property
    def from_records(self) -> tuple[str, ...]:
        """What the records said, in words; every claim is nominal for it."""
        kinds = {"category": "categories", "drop": "leaving out"}
        found = [f"the classes of {self.label}"] if self.classes_from_data else []
        return tuple(
            found
            + [
                f"the {kinds.get(column.type, 'bounds')} of {name}"
                for name, column in self.columns.items()
                if column.from_data
            ]
        )


def read_schema(path: Path) -> Schema:
    """The schema of a TOML file.

    Raises:
      OSError: it cannot be read.
      ValueError: all that is wrong with it, by column.
    """
    try:
        return from_toml(path.read_text(encoding="utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8; a schema is a TOML file") from error


def from_toml(text: str, what: str) -> Schema:
    """The schema that a TOML text says; `what` names it in messages.

    Raises:
      ValueError: as `read_schema`.
    """
    try:
        told = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{what} is no TOML file ({error})") from error
    if told.pop("schema", None) != VERSION:
        raise ValueError(
            f"{what} must begin with schema = {VERSION}; `fedsvp schema DATA.csv` "
            "drafts one"
        )
    wrong: list[str] = []
    label, client = (told.pop(name, {}) for name in ("label", "client"))
    columns = {}
    if not isinstance(given := told.pop("columns", {}), dict):
        given = {}
    for name, of in given.items():
        try:
            columns[name] = _column(of if isinstance(of, dict) else {})
        except ValueError as error:
            wrong.append(f"column {name}: {error}")
    _refuse_others(told, {"unit", "decimal", "encoding", "test_fraction"}, wrong)
    for name, table, keys in (
        ("label", label, {"column", "classes", "from_data"}),
        ("client", client, {"column"}),
    ):
        if not isinstance(table, dict) or not isinstance(table.get("column", ""), str):
            wrong.append(f'{name} must be a table with column = "NAME"')
        else:
            _refuse_others(table, keys, wrong, f"{name}: ")
    unit, decimal = told.get("unit", "row"), told.get("decimal", ".")
    share, encoding = told.get("test_fraction"), told.get("encoding", "utf-8")
    if unit not in UNITS:
        wrong.append(unknown("unit", unit, UNITS))
    if decimal not in column_values.DECIMALS:
        wrong.append(f'decimal must be "." or ",", got {decimal!r}')
    if encoding not in csv_file.ENCODINGS:
        wrong.append(unknown("encoding", encoding, csv_file.ENCODINGS))
    if share is not None and not (_is_number(share) and 0 < share < 1):
        wrong.append(f"test_fraction must be between 0 and 1, got {share!r}")
    if wrong:
        raise ValueError(f"{what}: " + "; ".join(wrong))
    try:
        classes = _texts(label.get("classes", []), "classes")
    except ValueError as error:
        raise ValueError(f"{what}: label: {error}") from error
    if label and not 2 <= len(classes) <= MOST_CLASSES:
        raise ValueError(
            f"{what}: label: classes must list 2 to {MOST_CLASSES} classes, got "
            f"{len(classes)}"
        )
    return Schema(
        columns=columns,
        label=label.get("column"),
        classes=classes,
        classes_from_data=bool(label.get("from_data")),
        client=client.get("column"),
        unit=unit,
        decimal=decimal,
        encoding=encoding,
        test_fraction=share,
    )


def _refuse_others(
    told: Mapping[str, Any], keys: set[str], wrong: list[str], of: str = ""
) -> None:
    for name in told.keys() - keys:
        wrong.append(of + unknown("a key", name, sorted(keys)))


def _column(told: dict[str, Any]) -> SchemaColumn:
    """Raises ValueError: a key or a value that its type does not have."""
    kind = told.get("type")
    if kind not in TYPES:
        raise ValueError(unknown("type", kind, tuple(TYPES)))
    wrong: list[str] = []
    _refuse_others(told, TYPES[kind] | {"type", "from_data"}, wrong)
    if wrong:
        raise ValueError("; ".join(wrong))
    from_data = bool(told.get("from_data"))
    if kind == "drop":
        return SchemaColumn(kind, from_data=from_data)
    if kind == "category":
        values = _texts(told.get("values", []), "values")
        if not values:
            raise ValueError("values must list its categories")
        return SchemaColumn(kind, values=values, from_data=from_data)
    is_date, words = kind == "date", "[LOW, HIGH]"
    bounds = told.get("bounds")
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise ValueError(f"bounds must be {words}, got {bounds!r}")
    low, high = (_as_number(one, "bounds", is_date) for one in bounds)
    if low > high:
        raise ValueError(f"bounds must be {words}, got {low:g} above {high:g}")
    fill = told.get("fill")
    return SchemaColumn(
        kind,
        bounds=(low, high),
        fill=None if fill is None else _as_number(fill, "fill", is_date),
        missing=_texts(told.get("missing", []), "missing"),
        log=bool(told.get("log")),
        from_data=from_data,
    )


def _is_number(value: Any) -> bool:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and math.isfinite(value)


def _as_number(value: Any, name: str, is_date: bool) -> float:
    if is_date and isinstance(value, datetime.date):
        found = column_values.days(value.isoformat()[:10])
        assert found is not None
        return found
    if is_date or not _is_number(value):
        words = "dates such as 2024-12-31" if is_date else "finite numbers"
        raise ValueError(f"{name} must be {words}, got {value!r}")
    return float(value)


def _texts(values: Any, name: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(
        isinstance(one, str | int) and not isinstance(one, bool) for one in values
    ):
        raise ValueError(f'{name} must be a list of texts, as ["no", "yes"]')
    found = tuple(str(one).strip() for one in values)
    if len(set(found)) != len(found):
        raise ValueError(f"{name} must name each once")
    files.check_printable(found, name)
    return found


def to_toml(
    schema: Schema, notes: Mapping[str, str] | None = None, head: str = ""
) -> str:
    """The schema as TOML, which `from_toml` reads back.

    Args:
      schema: what is written.
      notes: a comment above a column; "label" and "client" too.
      head: comment lines at the top.
    """
    notes = notes or {}
    lines = [*(f"# {line}".rstrip() for line in head.splitlines())]
    lines += [f"schema = {VERSION}", f"unit = {_toml(schema.unit)}"]
    lines += [f"decimal = {_toml(schema.decimal)}"]
    if schema.encoding != "utf-8":
        lines.append(f"encoding = {_toml(schema.encoding)}")
    if schema.test_fraction is not None:
        lines.append(f"test_fraction = {schema.test_fraction!r}")
    tables: list[tuple[str, str, dict[str, Any]]] = []
    if schema.label is not None:
        label = {"column": schema.label, "classes": schema.classes}
        marked = {"from_data": True} if schema.classes_from_data else {}
        tables.append(("label", "[label]", label | marked))
    if schema.client is not None:
        tables.append(("client", "[client]", {"column": schema.client}))
    for name, column in schema.columns.items():
        key = name if _BARE.fullmatch(name) else _toml(name)
        tables.append((f"columns.{name}", f"[columns.{key}]", _told(column)))
    for note, title, values in tables:
        lines.append("")
        lines += [f"# {line}" for line in notes.get(note, "").splitlines()]
        lines.append(title)
        for key, value in values.items():
            todo = "  # TODO" if key == "from_data" else ""
            lines.append(f"{key} = {_toml(value)}{todo}")
    return "\n".join(lines) + "\n"


def _told(column: SchemaColumn) -> dict[str, Any]:
    def day(value: float) -> Any:
        return column_values.date_of(value) if column.type == "date" else value

    told: dict[str, Any] = {"type": column.type}
    if "bounds" in TYPES[column.type]:
        told["bounds"] = tuple(map(day, column.bounds))
    if column.log:
        told["log"] = True
    if column.fill is not None:
        told["fill"] = day(column.fill)
    if column.missing:
        told["missing"] = column.missing
    if column.values:
        told["values"] = column.values
    if column.from_data:
        told["from_data"] = True
    return told


def _toml(value: Any) -> str:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
