"""The public schema of a table: what is known of its columns without the records.

A schema is a TOML file that `fedsvp schema DATA.csv` drafts:

    schema = 1
    unit = "row"                 # what is protected: a row, a person, or a client
    decimal = "."                # before a fraction; a file may have the other alone
    thousands = ","              # between groups of three digits; left out: none
    encoding = "cp1252"          # left out: "utf-8"
    test_fraction = 0.2          # where no column `split` says train or test

    [label]
    column = "death"
    classes = ["alive", "dead"]
    shares = [0.66, 0.34]        # of the rows, where that is known without them

    [client]
    column = "hospital"          # leave it out where a table has no such column

    [person]                     # left out: every row is of a person of its own
    column = "patient"           # whose each row is; no feature
    rows = 1                     # so many of each person are kept, drawn once

    [private_bounds]             # left out: no bounds were bought
    epsilon = 1.0                # of all of them; every ε of a run counts it (P22)
    draws = 20
    unit = "row"                 # that they hide, or a person

    [drop]
    columns = ["note", "ward"]   # left out, as columns of type = "drop" are

    [columns.creatinine]
    type = "number"              # x becomes 2 u - 1, u = (x - low) / (high - low)
    units = "mg/dl"              # of the numbers, for readers
    bounds = [0.4, 10]           # numbers beyond are clamped
    log = true                   # of few large ones: ln(1+x-low) / ln(1+high-low)
    knots = [1.2, 2]             # where the slope may change: a linear spline
    fill = 1.0                   # the value of a cell that is missing
    missing = ["-9"]             # that is missing too, beside blanks, NA, ?, ...
    limits = true                # <0.5 is read as 0.5, and >40 as 40

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
    bounds = [50, 100]           # from above 1 %: so is 88 without its sign

    [columns.id]
    type = "drop"                # no feature; other lines of it are not read

What was read off the records has a line `from_data` beside it, since one more record
may change the features of all others. Every claim is nominal then (`from_records`),
until someone states the same without the records. The line holds what the records said:
`[0.4, 10, 1.0]` their least and largest value and their median, if it fills; beside
categories these; beside classes these and their shares. `true` says no more than that
they decided, and stands beside bounds that were bought, for the column's type is still
theirs. `false` says that someone stated the entries without the records, whatever these
hold.
"""

import dataclasses
import datetime
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedsvp_jax.core.files import Record, toml_beside
from fedsvp_jax.core.settings import Settings, setting, unknown

from ..dataset import Names
from . import files, literals

OTHERS = "*"  # the category of whatever has none of its own
MOST_CLASSES = 1000
MOST_VALUES = 200  # of a column that nobody declared
VERSION = 1
_FORMAT = toml_beside(__file__, "schema.toml")
TYPES, _KEYS = _FORMAT["types"], _FORMAT["keys"]
_WRITTEN: dict[str, tuple[Any, str, Callable[[str], float]]] = {
    "date": (datetime.date, "dates such as 2024-12-31", literals.days),
    "time": (datetime.time, "times such as 08:30:00", literals.hours),
}
UNITS: dict[str, Callable[[float], Any]] = {
    "date": literals.date_of,
    "time": literals.time_of,
}
_LARGEST = 1e308  # float64 holds it
_OFF = 0.02  # the sum of rounded shares may be so far from 1
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NO_FILL = "# fill = …  # no cell was blank; without a fill a blank one is refused"
Mark = bool | tuple[Any, ...] | None


@dataclasses.dataclass(frozen=True)
class SchemaColumn(Settings):
    """The declaration of one column that is no label and no client.

    Attributes:
      type: of `TYPES`.
      bounds: (low, high) of numbers; of dates in days since 1970-01-01, of times in
        hours since midnight.
      form: of dates with slashes, of `literals.DATE_FORMS`.
      log: whether numbers are scaled by their logarithms.
      knots: where a linear spline of a number may bend, between the bounds.
      units: of the numbers, for readers: pages and `join` print them.
      fill: the number (or day) of a missing cell; None refuses such cells.
      missing: further texts that mean a missing cell.
      limits: whether a number behind <, >, ≤ or ≥ is read as that number.
      values: the categories; `OTHERS` takes all others.
      from_data: what the records said, where they decided: (low, high), (low, high,
        fill), categories, or True. False: stated without them; None: no word of it.
    """

    type: str
    bounds: tuple[float, float] = (0.0, 0.0)
    form: str = setting(
        literals.DATE_FORMS[0], "Of dates with slashes.", choices=literals.DATE_FORMS
    )
    log: bool = setting(False, "Whether numbers are scaled by their logarithms.")
    knots: tuple[float, ...] = ()
    units: str = setting("", "Of the numbers.")
    fill: float | None = setting(None, "The number of a missing cell.")
    missing: Names = ()
    limits: bool = False
    values: Names = ()
    from_data: Mark = None

    @property
    def width(self) -> int:
        """The number of features that it becomes."""
        widths = {"drop": 0, "category": len(self.values)}
        return widths.get(self.type, 1 + len(self.knots))

    def scaled(self, numbers: np.ndarray) -> np.ndarray:
        """(n, width) float32: features of numbers, which are clamped.

        The first, x, goes from -1 to 1; it is 0 where the bounds are equal. The others
        are max(0, x - k) / (1 - k), by the x of each knot, k.
        """
        low, high = self.bounds
        if high <= low:
            return np.zeros((len(numbers), 1), np.float32)
        above, span = np.append(numbers, self.knots).clip(low, high) - low, high - low
        share = np.log1p(above) / np.log1p(span) if self.log else above / span
        x, knots = np.split(2 * share - 1, [len(numbers)])
        bends = (x[:, None] - knots).clip(0) / (1 - knots)
        return np.column_stack([x, bends]).astype(np.float32)

    def unscaled(self, feature: float) -> Any:
        """The number, date or time that `scaled` makes such a feature of."""
        low, high = self.bounds
        share, span = (1 + float(feature)) / 2, high - low
        above = np.expm1(share * np.log1p(span)) if self.log else share * span
        return UNITS.get(self.type, float)(low + above)

    @property
    def category_features(self) -> np.ndarray:
        """(count, count) float32: the features of each category.

        `OTHERS` is also the mean of all other categories: where no training row had it,
        its own weight is untrained, and the model sees an average row.
        """
        features = np.eye(len(self.values), dtype=np.float32)
        if OTHERS in self.values and len(self.values) > 1:
            others = np.array(self.values) == OTHERS
            features[others] = 1 / (len(self.values) - 1)
            features[others, others] = 1
        return features


@dataclasses.dataclass(frozen=True)
class Schema(Settings):
    """The columns of a table by name, in the order of its features.

    Attributes:
      columns: all but label and client.
      label: the column of the class; None of arrays (npz), which have none.
      classes: in their order.
      shares: of the classes, which sum to 1; () where nobody states them.
      classes_from_data: as a column's `from_data`: classes, and then the share of each.
      client: the column that says whose each row is, or None.
      unit: of privacy; with a person column it is no row.
      decimal: the mark before a fraction.
      thousands: the mark between groups of three digits; "": none is stated.
      encoding: of a CSV file without the mark of UTF-16, of `literals.ENCODINGS`; None
        where it is guessed.
      test_fraction: part of the rows for the test; None: the setting decides.
      person: the column that says whose each row is, where one may have several.
      rows_per_person: of which so many are kept, where a person is the unit.
      bounds_epsilon: ε of all bounds that private quantiles bought; 0: none was.
      bounds_draws: how many.
      bounds_unit: what they hide of the table.

    Raises:
      ValueError: a value is none of the allowed, or two contradict one another.
    """

    columns: Mapping[str, SchemaColumn]
    label: str | None = setting(None, "The column of the class.")
    classes: Names = ()
    shares: tuple[float, ...] = ()
    classes_from_data: Mark = None
    client: str | None = setting(None, "The column that says whose each row is.")
    unit: str = setting("row", "Of privacy.", choices=("row", "person", "client"))
    decimal: str = setting(".", "Before a fraction.", choices=literals.DECIMALS)
    thousands: str = setting(
        "", "Between groups of three digits.", choices=("", *literals.THOUSANDS)
    )
    encoding: str | None = "utf-8"
    test_fraction: float | None = setting(None, "For the test.", above=0, below=1)
    person: str | None = setting(None, "The column that says who a row is of.")
    rows_per_person: int = setting(1, "That are kept of each person.", at_least=1)
    bounds_epsilon: float = setting(0.0, "Of bought bounds.", at_least=0)
    bounds_draws: int = setting(0, "Bought bounds.", at_least=0)
    bounds_unit: str = setting("row", "Of bought bounds.", choices=("row", "person"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.person is not None and self.unit == "row":
            object.__setattr__(self, "unit", "person")
        if self.encoding not in (None, *literals.ENCODINGS):
            raise unknown("encoding", self.encoding, literals.ENCODINGS)
        count = len(self.classes)
        faults = {
            'unit = "person" needs [person] with column = "NAME"': (
                self.unit == "person" and self.person is None
            ),
            f"thousands must not be the decimal mark, got {self.thousands!r}": (
                self.decimal == self.thousands
            ),
            "private_bounds: epsilon and draws must both be above 0, got "
            f"{self.bounds_epsilon:g} and {self.bounds_draws}": (
                (self.bounds_epsilon > 0) != (self.bounds_draws > 0)
            ),
            f"label: shares must be {count} positive numbers that sum to 1, got "
            f"{list(self.shares)}": self.shares
            and (
                len(self.shares) != count
                or min(self.shares) <= 0
                or abs(sum(self.shares) - 1) > _OFF
            ),
        }
        files.refuse([fault for fault, holds in faults.items() if holds])

    @property
    def features(self) -> dict[str, SchemaColumn]:
        """The columns that are not left out."""
        return {n: c for n, c in self.columns.items() if c.type != "drop"}

    @property
    def dropped(self) -> Names:
        """The columns that are left out and have no mark: one line of a file."""
        return tuple(n for n, c in self.columns.items() if c == SchemaColumn("drop"))

    @property
    def notation(self) -> literals.Notation:
        """How numbers are written."""
        return literals.Notation(self.decimal, self.thousands)

    @property
    def bought(self) -> tuple[int, float]:
        """How many bounds private quantiles bought, and ε of each."""
        return self.bounds_draws, self.bounds_epsilon / max(self.bounds_draws, 1)

    @property
    def from_records(self) -> Names:
        """The parts that the records decided, in words; they make claims nominal."""
        kinds = {"category": "categories", "drop": "leaving out"}
        parts = [f"the classes of {self.label}"] if self.classes_from_data else []
        if self.bounds_draws and self.unit not in ("row", self.bounds_unit):
            parts.append(f"the bounds, which hide one {self.bounds_unit} alone,")
        parts += [
            f"the {kinds.get(column.type, 'bounds')} of {name}"
            for name, column in self.columns.items()
            if column.from_data
        ]
        return tuple(parts)


def as_read(schema: Schema, name: str) -> dict[str, str]:
    """The entries of a marked column, or of the label, that are as the records said.

    Beside `bounds` stands which of them: lower, upper, or lower and upper.

    Those that a form says are none of them, and the fill of bought bounds is not. A
    bound is as the records said within 1 % of theirs and of their range, unless it is
    0: a range alone grows by one outlier. A share is, within 1 % of theirs and of the
    rest, unless two decimals write it: of many rows those tell no count. Texts that
    count as missing may be cells that the draft read, which no mark tells.
    """
    column = schema.columns.get(name) or SchemaColumn(
        "category", values=schema.classes, from_data=schema.classes_from_data
    )
    texts = [text for text in column.values if text != OTHERS]
    mark, key = column.from_data, "classes" if name == schema.label else "values"
    parts: dict[str, Any] = {key: column.type == "category"}
    if isinstance(mark, tuple):
        names = [item for item in mark if isinstance(item, str)]
        numbers = mark[len(names) :]
        extremes = numbers[:2]
        near = [
            side
            for side, end, extreme in zip(
                ("lower", "upper"), column.bounds, extremes, strict=False
            )
            if end and abs(end - extreme) <= min(np.ptp(extremes), abs(extreme)) / 100
        ]
        parts = {
            key: {*names, OTHERS} == {*texts, OTHERS}
            if names
            else texts and [f"{end:g}" for end in extremes] == [texts[0], texts[-1]],
            "shares": names
            and any(
                share != round(share, 2)
                and abs(share - read) <= min(read, 1 - read) / 100
                for share, read in zip(
                    sorted(schema.shares), sorted(numbers), strict=False
                )
            ),
            "bounds": column.bounds != (0, 1) and " and ".join(near),
            "log": column.log,
            "fill": column.fill in numbers[2:],
        }
    if " ".join(sorted(texts)).lower() in _FORMAT["of_forms"]:
        del parts[key]
    parts |= {"missing": column.missing, "limits": column.limits}
    return {name: str(holds) for name, holds in parts.items() if holds}


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
    faults: list[str] = []
    declared, columns = content.pop("columns", {}), {}
    for name, table in declared.items() if isinstance(declared, dict) else ():
        with files.collected(faults, f"column {name}: "):
            columns[name] = _column(table if isinstance(table, dict) else {})
    fields: Record = {}
    for section, keys in reversed(_KEYS.items()):  # the top level has what is left
        table = content.pop(section, {}) if section else content
        with files.collected(faults, section and f"{section}: "):
            if not isinstance(table, dict):
                raise ValueError("it must be a table")
            _refuse_others(table, keys)
            fields |= {keys[key]: _meaning(key, table[key]) for key in table}
    dropped = fields.pop("dropped", ())
    for name in columns.keys() & {*dropped}:
        faults.append(f"drop: [columns.{name}] declares this column; name it once")
    columns |= dict.fromkeys(dropped, SchemaColumn("drop"))
    count = len(fields.get("classes", ()))
    if "label" in fields and not faults and not 2 <= count <= MOST_CLASSES:
        faults.append(
            f"label: classes must list 2 to {MOST_CLASSES} classes, got {count}"
        )
    if "rows_per_person" in fields:
        fields.setdefault("unit", "person")
    with files.collected(faults):
        schema = Schema(columns, **fields)
    files.refuse(faults, f"{source}: ")
    return schema


def _refuse_others(table: Mapping[str, Any], keys: Collection[str]) -> None:
    """Raises ValueError: a key that such a table does not have."""
    for name in table.keys() - keys:
        raise unknown("a key", name, sorted(keys))


def _column(table: Record) -> SchemaColumn:
    """Raises ValueError: a key or a value that its type does not have."""
    kind: Any = table.get("type")
    if kind not in TYPES:
        raise unknown("type", kind, tuple(TYPES))
    keys = TYPES[kind]
    if kind != "drop":  # whose bounds or values may stay in the file
        _refuse_others(table, keys)
    table = {"bounds": [], "values": None} | table
    column = SchemaColumn(
        **{key: _meaning(key, table[key], kind) for key in keys if key in table}
    )
    (low, high), knots = column.bounds, column.knots
    end = high - 1e-6 * (high - low)  # nearer, the last slope has no room
    if knots and sorted({low, *knots, end}) != [low, *knots, end]:
        raise ValueError(f"knots must rise between the bounds, got {[*knots]}")
    return column


def _meaning(key: str, value: Any, kind: str = "number") -> Any:
    """What a key says, in the type of its field; a column is of a `kind`.

    Raises:
      ValueError: it says something else.
    """
    if key == "fill":
        return _number(value, key, kind)
    items = value if isinstance(value, list) else [value]
    texts = [item for item in items if key == "from_data" and isinstance(item, str)]
    if texts == items != [] or key in ("classes", "columns", "missing", "values"):
        return _texts(value, key)
    if items is not value and key not in ("bounds", "knots", "shares"):
        return value
    numbers = tuple(_number(item, key, kind) for item in items if item not in texts)
    if key == "bounds" and (len(numbers) != 2 or numbers[0] > numbers[1]):
        raise ValueError(f"bounds must be [LOW, HIGH], got {value!r}")
    return _texts(texts, key) + numbers


def _number(value: Any, key: str, kind: str) -> float:
    """A number, a day or an hour."""
    cls, words, meaning = _WRITTEN.get(kind, (int | float, "finite numbers", float))
    if (
        isinstance(value, bool)
        or not isinstance(value, cls)
        or not abs(number := meaning(str(value))) < _LARGEST
    ):
        raise ValueError(f"{key} must be {words}, got {value!r}")
    return number


def _texts(values: Any, name: str) -> Names:
    if not isinstance(values, list) or not {*map(type, values)} <= {str, int}:
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
      notes: a comment above a column; "label", "client" and "person" too.
      head: comment lines at the top; a draft has some, and says where a fill lacks.
    """
    notes = notes or {}
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    lines.append(f"schema = {VERSION}")
    tables = [
        (section, section and f"[{section}]", written(schema, section))
        for section, keys in _KEYS.items()
        if getattr(schema, next(iter(keys.values())))
    ]
    for name, column in schema.columns.items():
        if column != SchemaColumn("drop"):
            tables.append((f"columns.{name}", table_header(name), written(column)))
    for note, title, entries in tables:
        if title:
            comment = [f"# TODO: {line}" for line in notes.get(note, "").splitlines()]
            lines += ["", *comment, title]
        for key, value in entries.items():
            todo = "  # TODO" if key == "from_data" and value != "false" else ""
            lines.append(f"{key} = {value}{todo}")
        if head and "bounds" in entries and "fill" not in entries:
            lines.append(_NO_FILL)
    return "\n".join(lines) + "\n"


def table_header(column: str) -> str:
    """The line above a column's entries: `[columns.age]`."""
    return f"[columns.{column if _BARE.fullmatch(column) else _toml(column)}]"


def written(declared: Schema | SchemaColumn, section: str = "") -> dict[str, str]:
    """The entries of a column, or of a schema's section, in TOML by key.

    Defaults that need not be written are left out.
    """
    keys, unit = _KEYS[section], None
    if isinstance(declared, SchemaColumn):
        keys = {key: key for key in TYPES[declared.type]}
        unit = UNITS.get(declared.type)
    defaults = {field.name: field.default for field in dataclasses.fields(declared)}
    return {
        key: _toml(getattr(declared, name), unit)
        for key, name in keys.items()
        if name in _FORMAT["always"] or getattr(declared, name) != defaults[name]
    }


def _toml(value: Any, unit: Callable[[float], Any] | None = None) -> str:
    """A value as TOML has it; numbers of days or hours as dates or times."""
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item, unit) for item in value)}]"
    if unit and isinstance(value, float):
        return str(unit(value))
    return json.dumps(value, ensure_ascii=False)
