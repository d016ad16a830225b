"""The public schema of a table: what is known of its columns without the records.

A schema is a TOML file that `fedsvp schema DATA.csv` drafts:

    schema = 1
    unit = "row"                 # what is protected: a row, a person, or a client
    decimal = "."                # before a fraction
    thousands = ","              # between groups of three digits; left out: none
    encoding = "cp1252"          # left out: "utf-8"
    test_fraction = 0.2          # where no column `split` says train or test

    [label]
    column = "death"
    classes = ["alive", "dead"]
    shares = [0.66, 0.34]        # of the rows, where that is known without them, or
    shares_epsilon = 0.1         # was counted with noise of this ε, which runs count

    [client]
    column = "hospital"          # leave it out where a table has no such column

    [person]                     # left out: every row is of a person of its own
    column = "patient"           # whose each row is; no feature
    rows = 1                     # so many of each person are kept, drawn once

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
    form = "dd/mm/yyyy"          # of dates with slashes; or "mm/dd/yyyy"
    bounds = [2010-01-01, 2025-12-31]

    [columns.seen]
    type = "time"                # 08:30: hours since midnight
    bounds = [00:00:00, 23:59:59]

    [columns.saturation]
    type = "percent"             # 45 % is 45
    bounds = [0, 100]

    [columns.id]
    type = "drop"                # no feature

What was read off the records has `from_data = true` beside it: one record more, and the
features of all others may be other ones. Every claim is nominal then (`from_records`),
until someone states the same without the records and removes the line. Beside bounds it
is `from_data = [0.4, 10]`: the least and the largest value of the records.
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

from fedsvp_jax.core.settings import unknown
from fedsvp_jax.data.tables import files, literals
from fedsvp_jax.data.tables.literals import DATE_FORMS, Notation

OTHERS = "*"  # the category of whatever has none of its own
MOST_CLASSES = 1000
MOST_VALUES = 200  # of a column that nobody declared
VERSION = 1
TYPES = {  # and the keys that each may have
    "number": {"bounds", "fill", "missing", "log"},
    "category": {"values"},
    "percent": {"bounds", "fill", "missing"},
    "date": {"bounds", "fill", "missing", "form"},
    "time": {"bounds", "fill", "missing"},
    "drop": set(),
}
UNITS = ("row", "person", "client")
_PLAIN = Notation()
_KEYS = {"unit", "decimal", "thousands", "encoding", "test_fraction"}
_OFF = 0.02  # from 1, by rounding, shares may be
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclasses.dataclass(frozen=True)
class SchemaColumn:
    """The declaration of one column that is no label and no client.

    Attributes:
      type: of `TYPES`.
      bounds: (low, high) of numbers; of dates in days since 1970-01-01, of times in
        hours since midnight.
      fill: the number (or day) of a missing cell; None refuses such cells.
      missing: further texts that mean a missing cell.
      values: the categories; `OTHERS` takes all others.
      log: whether numbers are scaled by their logarithms.
      form: of dates with slashes, of `literals.DATE_FORMS`.
      from_data: whether the records said so; of bounds, the records' extremes.
    """

    type: str
    bounds: tuple[float, float] = (0.0, 0.0)
    fill: float | None = None
    missing: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    log: bool = False
    form: str = DATE_FORMS[0]
    from_data: bool | tuple[float, float] = False

    @property
    def width(self) -> int:
        """The number of features that it becomes."""
        return {"drop": 0, "category": len(self.values)}.get(self.type, 1)


@dataclasses.dataclass(frozen=True)
class Schema:
    """The columns of a table by name, in the order of its features.

    Attributes:
      columns: all but label and client.
      label: the column of the class; None of arrays (npz), which have none.
      classes: in their order.
      shares: of the classes, which sum to 1; () where nobody states them.
      shares_epsilon: spent on counting the shares; 0 where they are known anyway.
      classes_from_data: whether the records said so.
      client: the column that says whose each row is, or None.
      unit: of privacy, of `UNITS`; with a person column it is no row.
      notation: how numbers are written.
      encoding: of a CSV file without the mark of UTF-16, of `literals.ENCODINGS`.
      test_fraction: part of the rows for the test; None: the setting decides.
      person: the column that says whose each row is, where one may have several.
      rows_per_person: of which so many are kept, where a person is the unit.
    """

    columns: Mapping[str, SchemaColumn]
    label: str | None = None
    classes: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    shares_epsilon: float = 0.0
    classes_from_data: bool = False
    client: str | None = None
    unit: str = "row"
    notation: Notation = _PLAIN
    encoding: str = "utf-8"
    test_fraction: float | None = None
    person: str | None = None
    rows_per_person: int = 1

    @property
    def from_records(self) -> tuple[str, ...]:
        """The parts that the records decided, in words; they make claims nominal."""
        kinds = {"category": "categories", "drop": "leaving out"}
        parts = [f"the classes of {self.label}"] if self.classes_from_data else []
        return tuple(
            parts
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
      ValueError: the faults of the schema, by column.
    """
    try:
        return from_toml(path.read_text(encoding="utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8; a schema is a TOML file") from error


def from_toml(text: str, source: str) -> Schema:
    """The schema of a TOML text; `source` names the text in messages.

    Raises:
      ValueError: as `read_schema`.
    """
    try:
        content = tomllib.loads(literals.normal(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{source} is no TOML file ({error})") from error
    if content.pop("schema", None) != VERSION:
        raise ValueError(
            f"{source} must begin with schema = {VERSION}; `fedsvp schema DATA.csv` "
            "drafts one"
        )
    wrong: list[str] = []
    label, client, person = (
        content.pop(name, {}) for name in ("label", "client", "person")
    )
    columns = {}
    if not isinstance(tables := content.pop("columns", {}), dict):
        tables = {}
    for name, table in tables.items():
        try:
            columns[name] = _column(table if isinstance(table, dict) else {})
        except ValueError as error:
            wrong.append(f"column {name}: {error}")
    _refuse_others(content, _KEYS, wrong)
    for name, table, keys in (
        (
            "label",
            label,
            {"column", "classes", "shares", "shares_epsilon", "from_data"},
        ),
        ("client", client, {"column"}),
        ("person", person, {"column", "rows"}),
    ):
        if not isinstance(table, dict) or not isinstance(table.get("column", ""), str):
            wrong.append(f'{name} must be a table with column = "NAME"')
        else:
            _refuse_others(table, keys, wrong, f"{name}: ")
    unit = content.get("unit", "row")
    decimal, thousands = content.get("decimal", "."), content.get("thousands", "")
    share, encoding = content.get("test_fraction"), content.get("encoding", "utf-8")
    if unit not in UNITS:
        wrong.append(unknown("unit", unit, UNITS))
    person = person if isinstance(person, dict) else {}
    if person and unit == "row":
        unit = "person"
    if "column" not in person and (person or unit == "person"):
        wrong.append('unit = "person" needs [person] with column = "NAME"')
    rows = person.get("rows", 1)
    if type(rows) is not int or rows < 1:
        wrong.append(f"person: rows must be a whole number from 1, got {rows!r}")
    if decimal not in literals.DECIMALS:
        wrong.append(f'decimal must be "." or ",", got {decimal!r}')
    if thousands not in ("", *literals.THOUSANDS) or thousands == decimal:
        wrong.append(
            'thousands must be ",", ".", " " or "\'", and not the decimal mark, got '
            f"{thousands!r}"
        )
    if encoding not in literals.ENCODINGS:
        wrong.append(unknown("encoding", encoding, literals.ENCODINGS))
    if share is not None and not (_is_number(share) and 0 < share < 1):
        wrong.append(f"test_fraction must be between 0 and 1, got {share!r}")
    if wrong:
        raise ValueError(f"{source}: " + "; ".join(wrong))
    try:
        classes = _texts(label.get("classes", []), "classes")
    except ValueError as error:
        raise ValueError(f"{source}: label: {error}") from error
    if label and not 2 <= len(classes) <= MOST_CLASSES:
        raise ValueError(
            f"{source}: label: classes must list 2 to {MOST_CLASSES} classes, got "
            f"{len(classes)}"
        )
    shares = label.get("shares", [])
    numbers = isinstance(shares, list) and all(map(_is_number, shares))
    if shares and not (
        numbers
        and len(shares) == len(classes)
        and min(shares) > 0
        and abs(sum(shares) - 1) < _OFF
    ):
        raise ValueError(
            f"{source}: label: shares must be {len(classes)} positive numbers that sum "
            f"to 1, got {shares!r}"
        )
    spent = label.get("shares_epsilon", 0.0)
    if not _is_number(spent) or spent < 0:
        raise ValueError(
            f"{source}: label: shares_epsilon must be at least 0, got {spent!r}"
        )
    if spent and unit != "row":
        raise ValueError(
            f"{source}: label: shares_epsilon counts rows, and unit = {_toml(unit)} is "
            "to hide more: state the shares, and leave shares_epsilon out"
        )
    return Schema(
        columns=columns,
        label=label.get("column"),
        classes=classes,
        shares=tuple(float(share) for share in shares),
        shares_epsilon=float(spent),
        classes_from_data=bool(label.get("from_data")),
        client=client.get("column"),
        unit=unit,
        notation=Notation(decimal, thousands),
        encoding=encoding,
        test_fraction=share,
        person=person.get("column"),
        rows_per_person=rows,
    )


def _refuse_others(
    content: Mapping[str, Any], keys: set[str], wrong: list[str], prefix: str = ""
) -> None:
    for name in content.keys() - keys:
        wrong.append(prefix + unknown("a key", name, sorted(keys)))


def _column(content: dict[str, Any]) -> SchemaColumn:
    """Raises ValueError: a key or a value that its type does not have."""
    kind = content.get("type")
    if kind not in TYPES:
        raise ValueError(unknown("type", kind, tuple(TYPES)))
    wrong: list[str] = []
    _refuse_others(content, TYPES[kind] | {"type", "from_data"}, wrong)
    if wrong:
        raise ValueError("; ".join(wrong))
    from_data = bool(content.get("from_data"))
    if kind == "drop":
        return SchemaColumn(kind, from_data=from_data)
    if kind == "category":
        values = _texts(content.get("values", []), "values")
        if not values:
            raise ValueError("values must list its categories")
        return SchemaColumn(kind, values=values, from_data=from_data)
    form, fill = content.get("form", DATE_FORMS[0]), content.get("fill")
    if form not in DATE_FORMS:
        raise ValueError(unknown("form", form, DATE_FORMS))
    extremes = content.get("from_data")
    return SchemaColumn(
        kind,
        bounds=_bounds(content.get("bounds"), "bounds", kind),
        fill=None if fill is None else _as_number(fill, "fill", kind),
        missing=_texts(content.get("missing", []), "missing"),
        log=bool(content.get("log")),
        form=form,
        from_data=_bounds(extremes, "from_data", kind)
        if isinstance(extremes, list)
        else from_data,
    )


def _bounds(values: Any, name: str, kind: str) -> tuple[float, float]:
    if not isinstance(values, list) or len(values) != 2:
        raise ValueError(f"{name} must be [LOW, HIGH], got {values!r}")
    low, high = (_as_number(value, name, kind) for value in values)
    if low > high:
        raise ValueError(f"{name} must be [LOW, HIGH], got {low:g} above {high:g}")
    return low, high


def _is_number(value: Any) -> bool:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and math.isfinite(value)


def _as_number(value: Any, name: str, kind: str) -> float:
    if kind == "date" and isinstance(value, datetime.date):
        return literals.days(value.isoformat()[:10])
    if kind == "time" and isinstance(value, datetime.time):
        return literals.hours(value.isoformat())
    if kind in _WRITTEN or not _is_number(value):
        words = _WRITTEN.get(kind, "finite numbers")
        raise ValueError(f"{name} must be {words}, got {value!r}")
    return float(value)


_WRITTEN = {"date": "dates such as 2024-12-31", "time": "times such as 08:30:00"}


def _texts(values: Any, name: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(
        isinstance(value, str | int) and not isinstance(value, bool) for value in values
    ):
        raise ValueError(f'{name} must be a list of texts, as ["no", "yes"]')
    texts = tuple(str(value).strip() for value in values)
    if len(set(texts)) != len(texts):
        raise ValueError(f"{name} must name each once")
    files.check_printable(texts, name)
    return texts


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
    lines += [
        f"{name} = {_toml(mark)}"
        for name, mark in schema.notation._asdict().items()
        if mark
    ]
    if schema.encoding != "utf-8":
        lines.append(f"encoding = {_toml(schema.encoding)}")
    if schema.test_fraction is not None:
        lines.append(f"test_fraction = {schema.test_fraction!r}")
    tables: list[tuple[str, str, dict[str, Any]]] = []
    if schema.label is not None:
        label: dict[str, Any] = {"column": schema.label, "classes": schema.classes}
        if schema.shares:
            label["shares"] = schema.shares
        if schema.shares_epsilon:
            label["shares_epsilon"] = schema.shares_epsilon
        marked = {"from_data": True} if schema.classes_from_data else {}
        tables.append(("label", "[label]", label | marked))
    if schema.client is not None:
        tables.append(("client", "[client]", {"column": schema.client}))
    if schema.person is not None:
        bound = {"column": schema.person, "rows": schema.rows_per_person}
        tables.append(("person", "[person]", bound))
    for name, column in schema.columns.items():
        key = name if _BARE.fullmatch(name) else _toml(name)
        tables.append((f"columns.{name}", f"[columns.{key}]", _column_table(column)))
    for note, title, values in tables:
        lines.append("")
        lines += [f"# {line}" for line in notes.get(note, "").splitlines()]
        lines.append(title)
        for key, value in values.items():
            todo = "  # TODO" if key == "from_data" else ""
            lines.append(f"{key} = {_toml(value)}{todo}")
    return "\n".join(lines) + "\n"


def _column_table(column: SchemaColumn) -> dict[str, Any]:
    def written(value: float) -> Any:
        units = {"date": literals.date_of, "time": literals.time_of}
        return units.get(column.type, float)(value)

    table: dict[str, Any] = {"type": column.type}
    if "bounds" in TYPES[column.type]:
        table["bounds"] = tuple(map(written, column.bounds))
    if column.form != DATE_FORMS[0]:
        table["form"] = column.form
    if column.log:
        table["log"] = True
    if column.fill is not None:
        table["fill"] = written(column.fill)
    if column.missing:
        table["missing"] = column.missing
    if column.values:
        table["values"] = column.values
    if column.from_data:
        table["from_data"] = True
        if isinstance(column.from_data, tuple):
            table["from_data"] = tuple(map(written, column.from_data))
    return table


def _toml(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
