"""The cells of a column: texts as written, and the numbers and dates they are.

Nothing is guessed: a cell that could be meant in two ways is no number.
"""

import datetime
import math
import re
from typing import Any

import numpy as np
from numpy.dtypes import StringDType

from fedsvp_jax.data.tables import files

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9.]*[0-9],[0-9]+")
# 1.234,5 and 1,234.5; without the last part 1,234 could be either.
_GROUPED = {
    ",": re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+,[0-9]+"),
    ".": re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+\.[0-9]+"),
}
_ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})([T ][0-9:.]{5,15}Z?)?")
_DOTTED = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
_EPOCH = datetime.date(1970, 1, 1)
MISSING = ("", "na", "n/a", "#n/a", "nan", "nat", "<na>", "null", "none", "-", "?", ".")
_EXACT = 2**53  # float64 holds every whole number below
DECIMALS = (".", ",")


def texts(values: np.ndarray, source: str) -> np.ndarray:
    """(rows,) texts: numbers as they are written, whole ones without a point.

    Raises:
      ValueError: the column holds arrays; `source` names it.
    """
    if values.dtype.kind in "UT":
        return np.strings.strip(values.astype(StringDType()))
    if values.dtype.kind in "Mm":
        return np.datetime_as_string(values.astype("M8[D]")).astype(StringDType())
    if values.dtype == object:
        if np.ndim(values[0]) > 0:
            raise ValueError(
                f"{source} holds arrays; name it as image, or leave it out"
            )
        return np.array([_text(value) for value in values], StringDType())
    distinct, places = np.unique(values, return_inverse=True)
    return np.array([_text(value) for value in distinct.tolist()], StringDType())[
        places
    ]


def _text(value: Any) -> str:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        if value.is_integer() and abs(value) < _EXACT:
            return str(int(value))
    return str(value).strip()


def plain_numbers(values: np.ndarray, decimal: str) -> np.ndarray | None:
    """(rows,) float64 where every cell is plainly a finite number, else None."""
    if values.dtype.kind not in "biufUT":
        return None
    if values.dtype.kind in "UT":
        unclear = "_" if decimal == "." else "_."
        if any((np.strings.find(values, mark) >= 0).any() for mark in unclear):
            return None
    try:
        numbers = values.astype(np.float64)
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def number(text: str, decimal: str = ".") -> float | None:
    """The number that a cell is; None where it is none, or could be another.

    Args:
      text: the cell.
      decimal: the mark before its fraction.
    """
    other = "," if decimal == "." else "."
    if _GROUPED[decimal].fullmatch(text):
        text = text.replace(other, "")
    elif other in text:
        return None
    text = text.replace(decimal, ".")
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        return None
    return float(text)


def days(text: str) -> float | None:
    """Days since 1970-01-01 of `2024-03-31` (a time may follow) or `31.3.2024`.

    None: it is no date. `3/4/2024` is none, since it may be March or April.
    """
    if match := _ISO.fullmatch(text):
        year, month, day = map(int, match.groups()[:3])
    elif match := _DOTTED.fullmatch(text):
        day, month, year = map(int, match.groups())
    else:
        return None
    try:
        return float((datetime.date(year, month, day) - _EPOCH).days)
    except ValueError:
        return None


def date_of(number_of_days: float) -> datetime.date:
    """The date of so many days since 1970-01-01, rounded."""
    return _EPOCH + datetime.timedelta(days=round(number_of_days))


def kind(text: str, decimal: str = ".") -> str:
    """`number`, `comma` (with decimal="."), `missing`, `date` or `text`."""
    if number(text, decimal) is not None:
        return "number"
    if days(text) is not None:
        return "date"
    if _COMMA.fullmatch(text) and decimal == ".":
        return "comma"
    low = text.lower()
    if low in MISSING or low.lstrip("+-") in ("inf", "infinity"):
        return "missing"
    grouped = decimal == "," and "." in text
    too_large = not grouped and _NUMBER.fullmatch(text.replace(decimal, "."))
    return "missing" if too_large else "text"


def place(written: np.ndarray, wrong: np.ndarray) -> str:
    """`('old' in row 20, the first of 3; the first row is 1)`: where cells are wrong.

    Args:
      written: (rows,) the cells.
      wrong: (rows,) bool, at least one.
    """
    rows = np.flatnonzero(wrong)
    note = f", the first of {len(rows)}" if len(rows) > 1 else ""
    return (
        f"({files.quoted(written[rows[0]])} in row {rows[0] + 1}{note}; the first row "
        "is 1)"
    )
