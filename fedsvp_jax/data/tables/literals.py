"""What is written in a table: numbers, dates, times, and marks of missing cells.

Nothing is guessed: a cell that could be meant in two ways is neither.
"""

import datetime
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from fedsvp_jax.core.files import toml_beside

ENCODINGS = ("utf-8", "cp1252")  # that a schema may state
WORDS = toml_beside(__file__, "words.toml")
NO_VALUE = (*WORDS["missing"], *WORDS["infinite"])
DECIMALS, THOUSANDS = (".", ","), (",", ".", " ", "'")
DATE_FORMS = ("yyyy-mm-dd", "dd/mm/yyyy", "mm/dd/yyyy")
_PLAIN: dict[int, str | None] = {
    **dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), " "),
    **dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff")),  # nobody sees them
    **{0xFEE0 + code: chr(code) for code in range(0x21, 0x7F)},  # full width
    0x2212: "-",  # as typesetters write it
}
BEYOND = "^[<>≤≥]=? ?"  # a limit of detection
TAIL = r"(?:[T ][0-9:.]{4,15}(?: ?[AaPp][Mm])?(?: ?(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?)?"
_ISO = re.compile(  # 20240331, too
    r"((?:19|20)[0-9]{2}(?=[0-9]{4}$)|[0-9]{4}(?=[-/.][0-9]{1,2}[-/.]))"
    rf"[-/.]?([0-9]{{1,2}})[-/.]?([0-9]{{1,2}}){TAIL}"
)
_YEAR_LAST = re.compile(rf"([0-9]{{1,2}})([./-])([0-9]{{1,2}})\2([0-9]{{4}}){TAIL}")
_TIME = re.compile(
    r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9](?:\.[0-9]+)?))?(?: ?([ap])m)?",
    re.I,
)
_EPOCH = datetime.date(1970, 1, 1)


class Notation(NamedTuple):
    """How a table writes its numbers."""

    decimal: str = "."  # the mark before a fraction
    thousands: str = ""  # the mark between groups of three digits; "": none is stated


def normal(text: str) -> str:
    """The text in Unicode's form C, without what nobody sees and blanks around it.

    Blanks, digits, and signs of full width are those of ASCII, and so is the minus.
    """
    plain = re.sub(
        r"[^\D0-9]", lambda digit: str(int(digit[0])), text.translate(_PLAIN)
    )
    return unicodedata.normalize("NFC", plain).strip()


def days(text: str, form: str = DATE_FORMS[0]) -> float:
    """Days from 1970-01-01 to 2024-03-31, 20240331, 31.3.2024, or 31/3/2024; else NaN.

    A time of the day may follow. `3/4/2024` may be March or April: `form` decides, and
    without one of the two it is no date.
    """
    if match := _ISO.fullmatch(text):
        year, month, day = map(int, match.groups())
    elif match := _YEAR_LAST.fullmatch(text):
        day, month, year = map(int, match.group(1, 3, 4))
        if match[2] != ".":
            if form == DATE_FORMS[0]:
                return math.nan
            if form == DATE_FORMS[2]:
                day, month = month, day
    else:
        return math.nan
    try:
        return float((datetime.date(year, month, day) - _EPOCH).days)
    except ValueError:
        return math.nan


def date_of(number_of_days: float) -> datetime.date:
    """The date of so many days since 1970-01-01, rounded."""
    return _EPOCH + datetime.timedelta(days=round(number_of_days))


def hours(text: str) -> float:
    """Hours since midnight of `08:30`, `8:30:15` or `8:30 pm`; else NaN."""
    match = _TIME.fullmatch(text)
    if match is None:
        return math.nan
    hour, minute, second, half = match.groups("0")
    of_day = int(hour)
    if half != "0":
        if not 1 <= of_day <= 12:
            return math.nan
        of_day = of_day % 12 + 12 * (half in "pP")
    return of_day + int(minute) / 60 + float(second) / 3600


def time_of(number_of_hours: float) -> datetime.time:
    """The time of the day after so many hours, rounded to seconds."""
    seconds = min(round(3600 * number_of_hours), 86_399)
    return (datetime.datetime.min + datetime.timedelta(seconds=seconds)).time()


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def grouped(text: str) -> str:
    """The mark between groups of three digits (`12,697`); "" where there is none."""
    match = re.fullmatch(WORDS["grouped"], text)
    return match[1] if match else ""


def question(texts: Sequence[str], *kinds: str) -> str:
    """What to ask of texts that all have one of the forms, if so many are different."""
    for form, fewest, question in [entry for kind in kinds for entry in WORDS[kind]]:
        if len(texts) >= fewest and all(map(re.compile(form).fullmatch, texts)):
            return re.sub(form, question, texts[0])
    return ""


def is_mark(number: float) -> bool:
    """Whether a number, such as -9, 0, 99 or 999.9, may mean a missing one."""
    return bool(re.fullmatch(r"0|-1|-?([789])\1*(\.9+)?", f"{number:.15g}"))


def kind(text: str, notation: Notation) -> str:
    """What a cell is that is no number: missing, date, time, percent, grouped, ... .

    `grouped` has groups of three digits, which nobody stated; `mark` has a decimal
    comma in a table of decimal points, or a point in one of commas.
    """
    if grouped(text) not in ("", *notation):
        return "grouped"
    other = "," if notation.decimal == "." else "."
    plain = "" if other in text else text.replace(notation.decimal, ".")
    if text.lower() in NO_VALUE or _NUMBER.fullmatch(plain):
        return "missing"
    if _YEAR_LAST.fullmatch(text) or not math.isnan(days(text)):
        return "date"
    if not math.isnan(hours(text)):
        return "time"
    if text.endswith("%"):
        return "percent"
    fraction = f"[+-]?[0-9{notation.decimal}]*[0-9][{other}][0-9]+"
    return "mark" if re.fullmatch(fraction, text) else "text"
