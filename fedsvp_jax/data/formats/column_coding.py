"""A column of a table as features of a model, and as categories of an attribute.

A column is numbers if all its values are, and texts if none is. What could be either
is refused, with the row and what mends it, unless its categories are declared.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.dtypes import StringDType

from fedsvp_jax.data.dataset import Column
from fedsvp_jax.data.formats import declared, files
from fedsvp_jax.settings import MAX_ATTRIBUTES

MOST_TEXTS = 200  # of a column of features
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_POINT = re.compile(r"\.0*$")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_MISSING = ("", "na", "n/a", "#n/a", "nan", "<na>", "null", "none", "-", "?", ".")
_NO_LABEL = ("", "NA", "N/A", "#N/A", "nan", "NaN", "<NA>", "NULL")
_EXACT = 2**53  # float64 holds every whole number below


class Values(NamedTuple):
    """A column as it was read."""

    given: np.ndarray  # (rows,) numbers, texts or objects
    numbers: np.ndarray | None  # (rows,) float64; None for texts


class Coding(NamedTuple):
    """How a column becomes features: by its bounds, or one for each of its texts."""

    low: float = 0.0
    high: float = 0.0
    texts: tuple[str, ...] = ()
    public: bool = True  # false: the bounds or texts are those of the records


def texts(values: np.ndarray, what: str) -> np.ndarray:
    """(rows,) texts: numbers as they are written, whole ones without a point.

    Raises:
      ValueError: the column holds arrays or dates; `what` names it.
    """
    if values.dtype.kind in "UT":
        return np.strings.strip(values.astype(StringDType()))
    if values.dtype.kind in "Mm":
        raise ValueError(f"{what} holds dates; make numbers or texts of them")
    if values.dtype == object:
        if np.ndim(values[0]) > 0:
            raise ValueError(f"{what} holds arrays; name it as image, or leave it out")
        return np.array([_text(one) for one in values], StringDType())
    known, places = np.unique(values, return_inverse=True)
    return np.array([_text(one) for one in known.tolist()], StringDType())[places]


def _text(value: Any) -> str:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        if value.is_integer() and abs(value) < _EXACT:
            return str(int(value))
    return str(value).strip()


def read(values: np.ndarray, what: str) -> Values:
    """A column as numbers or texts.

    Raises:
      ValueError: a value is missing, or it holds both; `what` names the column.
    """
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
        if np.isfinite(numbers).all():
            return Values(values, numbers)
    written = texts(values, what)
    try:
        numbers = written.astype(np.float64)
        plain = not (np.strings.find(written, "_") >= 0).any()
        if plain and np.isfinite(numbers).all():
            return Values(written, numbers)
    except ValueError:
        pass
    known, places = np.unique(written, return_inverse=True)
    kinds = np.array([_kind(text) for text in known.tolist()])[places]

    def refused(kind: str, sentence: str) -> ValueError:
        rows = np.flatnonzero(kinds == kind)
        more = f", the first of {len(rows)}" if len(rows) > 1 else ""
        first = files.shown(written[rows[0]])
        at = f"({first} in row {rows[0] + 1}{more}; the first is 1)"
        return ValueError(f"{what} {sentence.format(at=at)}")

    present = set(kinds.tolist())
    if "number" not in present and "text" in present:
        if "" in known:
            kinds = np.where(written == "", "blank", kinds)
            raise refused(
                "blank",
                "lacks a text {at}; fill it in, leave the column out (--drop_columns), "
                "or declare its categories (--column_categories) with * for all others",
            )
        return Values(written, None)
    if "text" in present:
        raise refused(
            "text",
            "holds numbers and texts {at}; mend it, or declare its categories "
            "(--column_categories)",
        )
    if "comma" in present:
        raise refused("comma", "has commas in numbers {at}; write 3.5 and 1200")
    raise refused(
        "missing",
        "lacks a finite number {at}; fill it in, or leave the column out "
        "(--drop_columns)",
    )


def _kind(text: str) -> str:
    if _NUMBER.fullmatch(text):
        return "number" if math.isfinite(float(text)) else "missing"
    if _COMMA.fullmatch(text):
        return "comma"
    low = text.lower()
    return "missing" if low in _MISSING or low.endswith(("inf", "infinity")) else "text"


def coding(
    values: Values,
    is_train: np.ndarray,
    bounds: tuple[float, float] | None,
    what: str,
) -> Coding:
    """How a column becomes features, where its categories are not declared.

    Args:
      values: of the whole table.
      is_train: (rows,) bool: whose least and largest number are the bounds.
      bounds: declared in their place, or None.
      what: the column, in messages.

    Raises:
      ValueError: there are too many texts, or texts where bounds are declared.
    """
    if values.numbers is None:
        if bounds is not None:
            raise ValueError(f"{what} has declared bounds, and holds texts")
        names = declared.column(values.given, None, what).categories
        if len(names) > MOST_TEXTS:
            raise ValueError(
                f"{what} holds {len(names)} different texts, more than {MOST_TEXTS}; "
                "leave it out (--drop_columns), or merge the rare ones"
            )
        return Coding(texts=names, public=False)
    if bounds is not None:
        return Coding(*bounds)
    known = values.numbers[is_train]
    low, high = known.min(initial=np.inf), known.max(initial=-np.inf)
    return Coding(low, high, public=False)


def coded(values: Values, coding: Coding, what: str) -> np.ndarray:
    """A column as (rows, k) float32 features.

    Raises:
      ValueError: a text is unknown, or where numbers are wanted.
    """
    if coding.texts:
        codes = declared.coded(texts(values.given, what), coding.texts, what)
        return np.eye(len(coding.texts), dtype=np.float32)[codes]
    if values.numbers is None:
        raise ValueError(f"{what} holds texts; in the training it held numbers")
    low, high = coding.low, coding.high
    if not high > low:
        return np.zeros((len(values.numbers), 1), np.float32)
    scaled = 2 * (np.clip(values.numbers, low, high) - low) / (high - low) - 1
    return scaled.astype(np.float32)[:, None]


def column(values: Values, coding: Coding, what: str) -> Column | None:
    """A column as categories of an attribute; None: too many, or fractions.

    Numbers that are written differently (01 and 1, but not 1.0 and 1) are different
    categories.
    """
    if coding.texts:
        if len(coding.texts) > MAX_ATTRIBUTES:
            return None
        codes = declared.coded(texts(values.given, what), coding.texts, what)
        return Column(codes, coding.texts, coding.public)
    numbers = values.numbers
    assert numbers is not None
    if (np.rint(numbers) != numbers).any() or len(np.unique(numbers)) > MAX_ATTRIBUTES:
        return None
    known, places = np.unique(texts(values.given, what), return_inverse=True)
    whole = np.array([_POINT.sub("", text) for text in known.tolist()], StringDType())
    found = declared.column(whole[places], None, what)
    return found if len(found.categories) <= MAX_ATTRIBUTES else None


def classes(values: np.ndarray, names: Sequence[str] | None, what: str) -> Column:
    """Labels as classes, by declared names or as they are written, in order.

    Raises:
      ValueError: a label is missing or a fraction, or there are too many of them.
    """
    written = texts(values, what)
    if names is not None:
        return declared.column(written, names, what)
    found = declared.column(written, None, what)
    for text in found.categories:
        row = int(np.flatnonzero(written == text)[0]) + 1
        at = f"({files.shown(text)} in row {row}; the first is 1)"
        if text in _NO_LABEL:
            raise ValueError(
                f"{what} lacks a label {at}; leave such rows out, or declare the class "
                "(--column_categories)"
            )
        if _kind(text) == "number" and not float(text).is_integer():
            raise ValueError(f"{what} holds numbers that are no classes {at}")
    if not 2 <= len(found.categories) <= declared.MOST_CLASSES:
        raise ValueError(
            f"{what} holds {len(found.categories)} different values; labels are 2 to "
            f"{declared.MOST_CLASSES} classes"
        )
    return found
