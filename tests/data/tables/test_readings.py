"""Odd tables of hospitals: each is read as it was meant, or refused in one sentence."""

import dataclasses
import pathlib
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import draft, encoding, literals, table, table_file
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn, from_toml, to_toml
from fedsvp_jax.data.tables.table import from_table

pytestmark = pytest.mark.hole
ROWS = 120
RNG = np.random.default_rng(54)
DIED = ["no", "yes"] * (ROWS // 2)
AGES = (20 + np.arange(ROWS) // 2).tolist()
COSTS = [int(n) for n in RNG.integers(40, 60_000, ROWS)]
LATIN = {
    "Zürich": "Zu\u0308rich",
    "Genève": "Gene\u0300ve",
    "St. Gallen": "St.\u00a0Gallen",
}
FULL_WIDTH = {ord(mark): ord(mark) + 0xFEE0 for mark in "0123456789."}


def each(*values: Any) -> list[str]:
    """A column in which the values take turns."""
    return [str(values[n % len(values)]) for n in range(ROWS)]


def of_rows(cell: Callable[[int], Any]) -> list[str]:
    return [str(cell(n)) for n in range(ROWS)]


def written(
    columns: dict[str, list[str]], divider: str = ",", before: str = ""
) -> bytes:
    """A file in which every cell stands in quotes where it must."""
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    quoted = [
        [f'"{c}"' if any(m in c for m in (divider, "\n")) else c for c in row]
        for row in rows
    ]
    return (before + "\n".join(map(divider.join, quoted)) + "\n").encode()


class Read(NamedTuple):
    """What `fedsvp schema` shows of one file, and what the encoder makes of it."""

    schema: Schema
    notes: dict[str, str]
    data: Any


def read(
    path: pathlib.Path, content: bytes, notation: literals.Notation | None = None
) -> Read:
    """Drafts a schema, writes and reads it, and loads the file by it."""
    path.write_bytes(content)
    columns, form = table_file.read_table(path, None)
    label, client = draft.guessed(columns).values()
    assert label == "died"
    schema, notes = draft.proposed(
        columns,
        label=label,
        client=client,
        source="a.csv",
        form=form,
        notation=notation,
    )
    toml = path.with_suffix(".toml")
    toml.write_text(to_toml(schema, notes, "head"))
    assert from_toml(toml.read_text(), "s") == schema
    return Read(schema, notes, table.load_file(path, TableSettings(schema=str(toml))))


def column(cells: list[str], name: str = "x", **form: str) -> bytes:
    return written({"age": list(map(str, AGES)), name: cells, "died": DIED}, **form)


def grouped(mark: str) -> list[str]:
    return [f"{cost:,}".replace(",", mark) for cost in COSTS]


def number(cells: list[float]) -> np.ndarray:
    """The feature by the formula of schema.py, with the extremes as bounds."""
    values = np.array(cells, float)
    low, high = values.min(), values.max()
    upper = np.sort(values)[int(np.ceil(0.9 * len(values))) - 1]
    share = (values - low) / (high - low)
    if upper - low < 0.25 * (high - low):
        share = np.log1p(values - low) / np.log1p(high - low)
    return np.sort(2 * share - 1)


Stated = literals.Notation
# A file, how it says it writes numbers, and the numbers that x holds.
NUMBERS: dict[str, tuple[bytes, Stated | None, list[float]]] = {
    "thousands by commas": (column(grouped(",")), Stated(".", ","), COSTS),
    "thousands by points": (
        column(grouped("."), divider=";"),
        Stated(",", "."),
        COSTS,
    ),
    "thousands by blanks": (column(grouped(" ")), Stated(".", " "), COSTS),
    "thousands by no-break blanks": (
        column(grouped("\u202f")),
        Stated(".", " "),
        COSTS,
    ),
    "thousands by apostrophes": (column(grouped("'")), Stated(".", "'"), COSTS),
    "thousands and a fraction": (
        column([f"{cost:,}.5" for cost in COSTS]),
        Stated(".", ","),
        [cost + 0.5 for cost in COSTS],
    ),
    "points before fractions": (
        column(of_rows(lambda n: f"{n + 1}.697"), divider=";"),
        Stated("."),
        [n + 1.697 for n in range(ROWS)],
    ),
    "commas before fractions": (
        column(of_rows(lambda n: f"{n + 1},697")),
        Stated(","),
        [n + 1.697 for n in range(ROWS)],
    ),
    "fractions of other lengths": (
        column(of_rows(lambda n: f"{n + 1},{n % 9}"), divider=";"),
        None,
        [n + 1 + (n % 9) / 10 for n in range(ROWS)],
    ),
    "per cents": (
        column(of_rows(lambda n: f"{n % 97} %")),
        None,
        [n % 97 for n in range(ROWS)],
    ),
    "per cents without a blank": (
        column(of_rows(lambda n: f"{n % 97},5%"), divider=";"),
        Stated(","),
        [n % 97 + 0.5 for n in range(ROWS)],
    ),
    "per cents with a no-break blank": (
        column(of_rows(lambda n: f"{n % 97}\u00a0%")),
        None,
        [n % 97 for n in range(ROWS)],
    ),
    "times": (
        column(of_rows(lambda n: f"{n % 24:02}:30")),
        None,
        [n % 24 + 0.5 for n in range(ROWS)],
    ),
    "times without a leading zero": (
        column(of_rows(lambda n: f"{n % 24}:15")),
        None,
        [n % 24 + 0.25 for n in range(ROWS)],
    ),
    "times with seconds": (
        column(of_rows(lambda n: f"{n % 24:02}:00:{n % 60:02}")),
        None,
        [n % 24 + (n % 60) / 3600 for n in range(ROWS)],
    ),
    "days before months": (
        column(of_rows(lambda n: f"{1 + n % 31}/01/2024")),
        None,
        [n % 31 for n in range(ROWS)],
    ),
    "months before days": (
        column(of_rows(lambda n: f"01/{1 + n % 31}/2024")),
        None,
        [n % 31 for n in range(ROWS)],
    ),
    "days between hyphens": (
        column(of_rows(lambda n: f"{1 + n % 31}-01-2024")),
        None,
        [n % 31 for n in range(ROWS)],
    ),
    "days without marks": (
        column(of_rows(lambda n: f"202401{1 + n % 31:02}")),
        None,
        [n % 31 for n in range(ROWS)],
    ),
    "zoned times": (
        column(of_rows(lambda n: f"2024-01-{1 + n % 31:02}T08:30:00+01:00")),
        None,
        [n % 31 for n in range(ROWS)],
    ),
    "times of Zulu": (
        column(of_rows(lambda n: f"2024-01-{1 + n % 31:02} 23:59:59.999Z")),
        None,
        [n % 31 for n in range(ROWS)],
    ),
    "years first, with slashes": (
        column(of_rows(lambda n: f"2024/1/{1 + n % 31}")),
        None,
        [n % 31 for n in range(ROWS)],
    ),
    "a tab is said in the first line": (
        column(list(map(str, COSTS)), divider="\t", before="sep=\t\n"),
        None,
        COSTS,
    ),
    "a tab is said by its name": (
        column(list(map(str, COSTS)), divider="\t", before="sep=\\t\n"),
        None,
        COSTS,
    ),
    "a bar is said in quotes": (
        column(list(map(str, COSTS)), divider="|", before='"sep=|"\r\n'),
        None,
        COSTS,
    ),
    "zeros and ones": (column(each(0, 1, 1)), None, [0, 1, 1] * (ROWS // 3)),
    "a typesetter's minus": (
        column(of_rows(lambda n: f"\u2212{n}.5" if n % 2 else f"{n}.5")),
        None,
        [-n - 0.5 if n % 2 else n + 0.5 for n in range(ROWS)],
    ),
    "thousands of negative numbers": (
        column([f"{-cost:,}" for cost in COSTS]),
        Stated(".", ","),
        [-cost for cost in COSTS],
    ),
    "millions": (
        column([f"{cost * 999:,}" for cost in COSTS]),
        Stated(".", ","),
        [cost * 999 for cost in COSTS],
    ),
    "powers of ten with a sign": (
        column(of_rows(lambda n: f"{n}.5e-3")),
        None,
        [(n + 0.5) / 1000 for n in range(ROWS)],
    ),
    "points without a zero": (
        column(of_rows(lambda n: f".{n % 90 + 10}")),
        None,
        [(n % 90 + 10) / 100 for n in range(ROWS)],
    ),
    "per cents of negative numbers": (
        column(of_rows(lambda n: f"-{n % 97},5 %"), divider=";"),
        Stated(","),
        [-(n % 97) - 0.5 for n in range(ROWS)],
    ),
    "days with a time and a zone behind points": (
        column(of_rows(lambda n: f"{1 + n % 31}.01.2024 23:15")),
        None,
        [n % 31 for n in range(ROWS)],
    ),
    "digits of full width": (
        column(of_rows(lambda n: f"{n}.5".translate(FULL_WIDTH))),
        None,
        [n + 0.5 for n in range(ROWS)],
    ),
    "digits of full width in some cells": (
        column(of_rows(lambda n: f"{n}.5".translate(FULL_WIDTH if n % 4 else {}))),
        None,
        [n + 0.5 for n in range(ROWS)],
    ),
    "digits of Arabic": (
        column(of_rows(lambda n: "".join(chr(0x660 + int(d)) for d in str(n % 70)))),
        None,
        [n % 70 for n in range(ROWS)],
    ),
    "per cents of full width": (
        column(of_rows(lambda n: f"{n % 97}\uff05")),
        None,
        [n % 97 for n in range(ROWS)],
    ),
    "twelve hours of the clock": (
        column(of_rows(lambda n: f"{1 + n % 12}:30 {'AP'[n // 12 % 2]}M")),
        None,
        [(1 + n % 12) % 12 + 12 * (n // 12 % 2) + 0.5 for n in range(ROWS)],
    ),
    "days with twelve hours of the clock": (
        column(of_rows(lambda n: f"2024-01-{1 + n % 31:02} {1 + n % 12}:30 pm")),
        None,
        [n % 31 for n in range(ROWS)],
    ),
    "a semicolon is said in capitals": (
        column(list(map(str, COSTS)), divider=";", before="SEP=;\n"),
        None,
        COSTS,
    ),
}


@pytest.mark.parametrize("name", list(NUMBERS))
def test_numbers_are_what_their_table_means(name: str, tmp_path: pathlib.Path) -> None:
    content, notation, values = NUMBERS[name]
    schema, _, data = read(tmp_path / "a.csv", content, notation)
    assert list(schema.columns) == ["age", "x"]
    found = np.concatenate([data.train_inputs, data.test_inputs])[:, 1]
    np.testing.assert_allclose(np.sort(found), number(values), atol=2e-6)


# A column of the name, and what the draft says where it leaves it out.
LEFT_OUT: dict[str, tuple[str, list[str], str]] = {
    "leading zeros": ("x", of_rows(lambda n: f"{n + 501:05}"), "'00501': a code"),
    "NHS numbers": ("nhs", of_rows(lambda n: f"{7304561 + n % 90:010}"), "nhs repeat"),
    "letters that look like powers": (
        "x",
        of_rows(lambda n: f"{n % 90}E05"),
        "'0E05': a code, no number",
    ),
    "a number of each row": ("x", of_rows(lambda n: n + 1), "an identifier?"),
    "patients": ("patient", of_rows(lambda n: f"P{n}"), "a person, by"),
    "patients by number": ("PatientID", of_rows(lambda n: n), "a person, by"),
    "numbered, rows deleted": ("x", of_rows(lambda n: n + n // 9), "an identifier?"),
    "seven digits in every row": (
        "account",
        of_rows(lambda n: 3_000_000 + 7 * n),
        "7 digits in every row: a code?",
    ),
    "an id that repeats": ("x id", of_rows(lambda n: 7 * (n % 60)), "ids of persons"),
    "names of an id that repeats": (
        "x id",
        of_rows(lambda n: f"p{n % 60}"),
        '[person] column = "x id" in the schema makes a person the unit; of something',
    ),
    "a text of its own in each row": (
        "x",
        of_rows(lambda n: f"note {n}"),
        "own in ev",
    ),
    "one number": ("x", each(7), "constant: '7' in every row"),
    "one text": ("x", each("Spital"), "constant: 'Spital'"),
    "one of all spellings": (
        "x",
        each("Genève", LATIN["Genève"]),
        "constant: 'Genève'",
    ),
    "no value": (
        "x",
        each("", "NA", "k.A.", "n/a", "?", "NaT", "null"),
        "no cell has a value",
    ),
    "years of two digits": ("x", of_rows(lambda n: f"{1 + n % 28}.01.20"), "four digi"),
    "dates of two orders": (
        "x",
        of_rows(lambda n: f"{1 + n % 9}/{1 + n % 8}/2024"),
        'state type = "date" and form',
    ),
    "numbers with blanks": ("x", grouped(" "), 'state --thousands=" "'),
    "numbers with units": (
        "x",
        of_rows(lambda n: f"{n % 60} mg/dl"),
        "write it plainly",
    ),
    "accountants' negative numbers": (
        "x",
        of_rows(lambda n: f"({n})" if n % 3 == 0 else n * 1.5),
        "'(0)': a number? write it plainly",
    ),
    "dollars": ("x", of_rows(lambda n: f"${n % 60}.50"), "'$0.50': a number?"),
    "euros": ("x", of_rows(lambda n: f"{n % 60},50 €"), "'0,50 €': a number?"),
    "more hours than a day has": (
        "x",
        of_rows(lambda n: f"{n % 60}:{n % 59:02}:00"),
        "'0:00:00': a duration? write it in hours",
    ),
    "codes of diagnoses": (
        "x",
        of_rows(lambda n: f"{'IEJ'[n % 3]}{21 + n % 10}.{n % 4}"),
        "'I21.0': a code of a diagnosis (ICD)? write its group",
    ),
    "postcodes": ("x", of_rows(lambda n: f"{501 + n % 60:05}"), "'00501': a code"),
    "a constant of two spaces": ("x", each("a b", "a\u00a0b"), "constant: 'a b'"),
    "marks of missing cells of sheets and databases": (
        "x",
        each("#DIV/0!", "(null)", "--", "N.A.", "\\N", "\u2014"),
        "no cell has",
    ),
    "months by name": (
        "x",
        of_rows(lambda n: f"{1 + n % 28} Feb 2024"),
        "'1 Feb 2024': a date? write 2024-12-31",
    ),
    "months in German": ("x", of_rows(lambda n: f"{1 + n % 28}. Mai"), "a date? write"),
    "days in two orders": (
        "x",
        [*of_rows(lambda n: f"{1 + n % 28}/01/2024")[1:], "01/31/2024"],
        "no dd/mm/yyyy ('01/31/2024' in row 120, or 121 with the header), as in most "
        "rows: write all one way",
    ),
    "fractions and per cents": (
        "x",
        each("0.12", "0.5", "12 %", "0.34"),
        "no number ('12 %' in row 3, or 4 with the header, the first of 30)",
    ),
    "days as Excel counts them": (
        "admission_date",
        of_rows(lambda n: 43_000 + n % 60),
        "43000: a date, as Excel counts days? write it as 2024-12-31",
    ),
    "names of persons": (
        "Name",
        of_rows(lambda n: f"Anna {'Meier' * (n % 60)}"),
        "an identifier, or names of persons?",
    ),
    "two pressures": ("x", of_rows(lambda n: f"{n + 90}/80"), "two numbers in a cell"),
    "days of a spreadsheet": (
        "x",
        of_rows(lambda n: "44778" if n % 6 == 5 else f"{n % 28 + 1}.3.2024"),
        "no date ('44778' in row 6, or 7 with the header, the first of 20), as in most "
        "rows: write all one way, or leave them blank; 44778 may be the number that a "
        "spreadsheet gives a day",
    ),
    "durations": ("x", of_rows(lambda n: f"{n % 30} days"), "a number with its unit?"),
    "signs behind numbers": ("x", of_rows(lambda n: f"{n % 60}-"), "a minus behind th"),
    "telephones": ("phone", of_rows(lambda n: 4179 + 7 * (n % 60)), "ids of persons"),
    "marks of missing cells in capitals": ("x", each("NAN", "N/A", "NULL"), "no cell"),
}


@pytest.mark.filterwarnings("ignore:.*makes a person the unit")
@pytest.mark.parametrize("case", list(LEFT_OUT))
def test_what_is_no_feature_is_left_out_with_a_word(
    case: str, tmp_path: pathlib.Path
) -> None:
    name, values, note = LEFT_OUT[case]
    schema, notes, _ = read(tmp_path / "a.csv", column(values, name))
    assert schema.columns[name] == SchemaColumn("drop", from_data=True)
    assert note in notes[f"columns.{name}"], notes


@pytest.mark.hole
@pytest.mark.filterwarnings("ignore:.*rows are left out")
@pytest.mark.parametrize("name", ["patient", "PatientID", "patient id", "id", "MRN"])
def test_an_id_that_repeats_is_proposed_as_the_person(
    name: str, tmp_path: pathlib.Path
) -> None:
    """Such a column was left out, and ε then protected one visit."""
    content = column(of_rows(lambda n: f"P{n % 40}"), name)
    schema, notes, data = read(tmp_path / "a.csv", content)
    assert (schema.person, schema.unit, schema.rows_per_person) == (name, "person", 1)
    assert name not in schema.columns and name in notes["person"]
    assert len(data.train_labels) + len(data.test_labels) == 40
    columns, _ = table_file.read_table(tmp_path / "a.csv", None)
    left_out = draft.proposed(
        columns, label="died", client=None, drop=[name], source="a"
    )
    assert left_out.schema.person is None


VISITS = np.repeat(np.arange(60), [1, 3] * 30)  # of persons who come once or thrice
# Columns of ids, some of whom have several rows; and columns that hold something else.
IDS: dict[str, list[Any]] = {
    "Versicherte": of_rows(lambda n: 9_000_000_017 + 7129 * (n // 3)),
    "account": of_rows(lambda n: 1000 + n // 3),
    "code": of_rows(lambda n: f"P-{n // 2:05}"),
    "running": of_rows(lambda n: 1 + n // 3),
    "far": [str(1_000_003 + 7919 * n) for n in VISITS],
    "fallnummer": VISITS.tolist(),
    "visit_id": VISITS.tolist(),
    "case_no": [f"c{n}" for n in VISITS],
    "kis": [str(4_000_001 + 3 * n) for n in VISITS],
    "tx": [f"P{n:06}" for n in VISITS],
    "x9": [str(5000 + n - (n % 25 == 1)) for n in range(ROWS)],
    "p": [f"P{10 + n}" for n in VISITS],
    "at two sites": of_rows(lambda n: f"{'AB'[n % 2]}{10 + n // 3}"),
    "sparse": [str(1013 * (n - (n % 20 == 1)) + 37) for n in range(ROWS)],
}
NO_IDS: dict[str, list[Any]] = {
    "age": AGES,
    "cost": [str(n) for n in RNG.integers(100, 160, ROWS)],
    "rounded": [str(10_000 + 500 * n) for n in VISITS],
    "none or much": [str(1_000_003 + 7919 * n if n > 60 else 0) for n in range(ROWS)],
    "weight": of_rows(lambda n: f"{60.5 + n // 2}"),
    "week": of_rows(lambda n: f"week {1 + n // 2:02}"),
    "admitted": of_rows(lambda n: f"2024-{1 + n // 56:02}-{1 + n // 2 % 28:02}"),
    "at": of_rows(lambda n: f"{n // 6:02}:{n // 2 % 3}0"),
    "place_no": of_rows(lambda n: 30_001 + n // 12 % 11),
    "body_mass_index": VISITS.tolist(),
    "ends of floats": [str((-1) ** n * 10**300 * n * 10**6) for n in VISITS.tolist()],
    "words": [f"kind {n}" for n in VISITS],
    "icd": [f"I{21 + n // 5}.{n % 5}" for n in VISITS],
    "blocks": of_rows(lambda n: f"{'EIJ'[n // 2 % 3]}{10 + n // 2}"),
    "born on": of_rows(lambda n: f"19{30 + n // 2}02{10 + n % 2}"),
    "seen": of_rows(lambda n: f"20240{1 + n // 40}{10 + n // 2 % 19}"),
}


@pytest.mark.parametrize("name", [*IDS, *NO_IDS])
def test_ids_that_repeat_are_recognised_by_what_they_are(name: str) -> None:
    """Ten-digit ids, three rows each, became a feature of a model "proved" by row."""
    table = {name: (IDS | NO_IDS)[name], "dose": RNG.uniform(0, 1, ROWS), "died": DIED}
    schema, notes = draft.proposed(table, label="died", client=None, source="a")
    repeats = f"values of column {name} repeat, as ids of persons do"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        columns = {name: SchemaColumn("drop"), "dose": SchemaColumn("number", (0, 1))}
        stated = Schema(columns, "died", ("no", "yes"))
        from_table(table, schema=stated)
    messages = [str(warning.message) for warning in warned]
    assert any(repeats in message for message in messages) == (name in IDS)
    assert (repeats in notes.get(f"columns.{name}", "")) == (name in IDS)
    if name in IDS:
        assert f"the leaving out of {name}" in schema.from_records


@pytest.mark.parametrize("name", ["Patientennummer", "nhs_number", "pat_nr"])
def test_numbers_of_patients_are_proposed_as_the_person(name: str) -> None:
    table = {name: of_rows(lambda n: 1000 + n // 3), "died": DIED, "age": AGES}
    schema = draft.proposed(table, label="died", client=None, source="a").schema
    assert (schema.person, schema.unit) == (name, "person")


def test_columns_that_tell_the_class_are_noted() -> None:
    """nhefs has a column that is filled for the dead alone."""
    rows = np.arange(2400)
    kind, died = rows % 3, rows % 5 == 0
    weight = np.where(rows % 16 == 1, None, 40.0 + rows % 97)
    table = {
        "type": [f"kind {n}" for n in kind],
        "type1": (kind == 0).astype(int),
        "white": rows % 2,
        "almost white": np.where(rows == 2101, 0, rows % 2),
        "weight": weight,
        "censored": [int(w is None) for w in weight],
        "late": np.where(died & (rows % 2 == 0), "seen", "no"),
        "rare": (rows == 7).astype(int),
        "died": np.where(died, "yes", "no"),
    }
    notes = draft.proposed(table, label="died", client=None, source="a").notes
    assert notes == {
        "columns.type1": 'binary: 0 or 1; type tells the same: type = "drop" leaves '
        "type1 out",
        "columns.white": "binary: 0 or 1",
        "columns.almost white": "binary: 0 or 1",
        "columns.weight": "6.2 % of the cells are missing",
        "columns.censored": "binary: 0 or 1",
        "columns.late": "seen only where died = yes: known after the outcome? then "
        'type = "drop"',
        "columns.rare": "binary: 0 or 1",
    }


def test_columns_that_repeat_another_are_noted_with_it() -> None:
    """Indicators beside their category, complements, other units passed in silence."""
    rng = np.random.default_rng(5)
    stage, sex = rng.choice(["I", "II", "III"], 300), rng.choice(["F", "M"], 300)
    weight = rng.normal(70, 12, 300).round(1)
    weight[rng.random(300) < 0.1] = np.nan
    dose = rng.integers(0, 10, 300)
    table = {
        "stage_I": (stage == "I").astype(int),
        "stage": stage,
        "stage again": [f"grade {text}" for text in stage],
        "late": np.where(stage == "III", "yes", "no"),
        "female": (sex == "F").astype(int),
        "sex": sex,
        "level": (level := rng.choice(["1", "II", "III", "IV", "V"], 300)),
        "level again": [
            "1.0" if c == "1" and n % 2 else c for n, c in enumerate(level)
        ],
        "first": np.where(level == "1", 1, 0),
        "male": (sex == "M").astype(int),
        "weight": weight,
        "pounds": (weight / 0.4536).round(),
        "lost": -weight,
        "filled": np.nan_to_num(weight, nan=70),  # as the draft fills them
        "height": rng.normal(170, 9, 300).round(1),
        "dose": dose,
        "dosed": (dose > 0).astype(int),  # no linear function
        "squared": dose**2,
        "rare": np.arange(300) == 7,  # by chance in one stage alone
        "died": rng.choice(["no", "yes"], 300),
    }
    notes = draft.proposed(table, label="died", client=None, source="a").notes
    repeated = {
        name: note.partition(" tells the same: ")[0].rpartition("; ")[2]
        for name, note in notes.items()
        if "tells the same" in note
    }
    assert repeated == {
        "columns.stage_I": "stage",
        "columns.stage again": "stage",
        "columns.late": "stage",
        "columns.level again": "level",
        "columns.first": "level",
        "columns.sex": "female",
        "columns.male": "female",
        "columns.pounds": "weight",
        "columns.lost": "weight",
        "columns.filled": "weight",
    }
    assert 'female tells the same: type = "drop" leaves sex out' in notes["columns.sex"]


def test_a_class_that_may_be_no_class_is_noted_and_a_listed_one_is_a_class() -> None:
    labels = each("home", "none", "Unknown", "ward")
    table = {"age": AGES, "died": labels}
    notes = draft.proposed(table, label="died", client=None, source="a").notes
    asked = "a class? if not, leave such rows out"
    assert notes["label"] == f"Unknown: {asked}; none: {asked}"
    text = (
        "schema = 1\n[label]\ncolumn = 'died'\nclasses = ['home', 'NA', '?']\n"
        "[columns.age]\ntype = 'number'\nbounds = [0, 120]\n"
    )
    table["died"] = each("home", "NA", "?")
    data = from_table(table, schema=from_toml(text, "s"))
    both = np.concatenate([data.train_labels, data.test_labels])
    assert np.bincount(both).tolist() == [40, 40, 40]


@pytest.mark.hole
@pytest.mark.parametrize(
    ("client", "label"),
    [("provnum", "died"), ("inst", "died"), ("Hospital_ID", "dead"), ("ward", "death")],
)
def test_the_client_and_the_class_are_guessed_by_their_names(
    client: str, label: str
) -> None:
    """medpar's class was said to be type3, and its provnum no client."""
    table = {"sex": [], client: [], label: [], "username2": [], "type3": []}
    assert draft.guessed(table) == {"label": label, "client": client}


def test_what_has_two_values_is_no_logarithm(tmp_path: pathlib.Path) -> None:
    values = ["0"] * (ROWS - 2) + ["1"] * 2
    schema, notes, _ = read(tmp_path / "a.csv", column(values))
    assert not schema.columns["x"].log and notes["columns.x"] == "binary: 0 or 1"


def test_many_categories_are_counted(tmp_path: pathlib.Path) -> None:
    """Fifty weeks became fifty features without a word."""
    weeks = column(of_rows(lambda n: f"week {1 + n % 50:02}"))
    _, notes, _ = read(tmp_path / "a.csv", weeks)
    assert notes["columns.x"] == "50 texts, each a feature"


@pytest.mark.hole
def test_what_is_filled_for_one_class_alone_is_noted() -> None:
    """nhefs: the year of death, filled exactly where dead, was "80 % are missing"."""
    died = np.arange(120) % 3 == 0
    table = {
        "died": np.where(died, "yes", "no"),
        "year": np.where(died, 83 + np.arange(120) % 10, None),
        "left": np.where(died, None, 1.5 + np.arange(120)),
        "seen": np.where(died | (np.arange(120) % 2 > 0), 1.5 + np.arange(120), None),
        "asked": np.where(np.arange(120) % 2, 1.5 + np.arange(120), None),
        "day": np.where(died ^ (np.arange(120) > 116), 1.5 + np.arange(120), None),
        "time": np.where(died, 0.5, 40) + np.arange(120) % 41,
        "age": 40.5 + np.arange(120) % 41,
    }
    notes = draft.proposed(table, label="died", client=None, source="a").notes
    known = "{} only where died = {}: known after the outcome?"
    assert known.format("missing", "no") in notes["columns.year"]
    assert known.format("filled", "no") in notes["columns.left"]
    assert known.format("missing", "no") in notes["columns.seen"]
    assert "mostly missing where died = no: known after" in notes["columns.day"]
    assert "tells died nearly alone: known after the" in notes["columns.time"]
    assert "outcome" not in notes["columns.asked"] and "columns.age" not in notes
    few = {name: values[:18] for name, values in table.items()}
    notes = draft.proposed(few, label="died", client=None, source="a").notes
    assert "outcome" not in "".join(notes.values())


@pytest.mark.hole
def test_whole_numbers_that_no_two_rows_share_are_an_identifier() -> None:
    """nhefs: seqn, unique in 1,629 rows of 233 to 25,061, stayed a number."""
    rng = np.random.default_rng(0)
    table = {
        "died": rng.choice(["yes", "no"], 400),
        "seqn": rng.choice(np.arange(233, 9000), 400, replace=False),
        "dose": rng.choice(10**7, 400, replace=False),
        "steps": (steps := rng.integers(8000, size=400)),
        "metres": (metres := rng.integers(2000, size=400)),
        "marital": rng.integers(1, 9, 400),
    }
    schema, notes = draft.proposed(table, label="died", client=None, source="a")
    assert schema.columns["seqn"].type == "drop"
    assert "an identifier?" in notes["columns.seqn"]
    assert schema.columns["dose"].type == "number"
    assert "8 whole numbers: a code?" in notes["columns.marital"]
    asked = "{} different whole numbers in 400 rows: an identifier? then"
    assert asked.format(400) in notes["columns.dose"]
    assert len(set(metres)) < 0.95 * 400 < len(set(steps)) < 400
    assert asked.format(len(set(steps))) in notes["columns.steps"]
    assert "columns.metres" not in notes
    assert schema.columns["steps"].type == "number"


AMID = np.concatenate([np.repeat(np.arange(1.0, 41), 12), np.arange(41, 117, 2)])
MARKS: dict[str, tuple[np.ndarray, str]] = {
    "a score": (np.arange(120) % 11, "99"),
    "a stay, amid others": (AMID, "99"),
    "a stay, above few long ones": (np.r_[np.arange(90) % 30, 44, 61, 80], "99"),
    "a rounded value": (10.0 * (1 + np.arange(120) % 8), "99"),
    "a laboratory value amid others": (AMID / 10, "9.9"),
    "two marks amid others": (AMID * 9, "777, 999"),
    "an age": (1 + np.arange(120) % 80, "99"),
    "a pressure": (90 + 3 * (np.arange(120) % 37), "999"),
    "a laboratory value": (0.5 + np.arange(120) / 20, "99.9"),
    "no and yes": (np.arange(120) % 2, "9"),
    "three codes": (1 + np.arange(120) % 3, "9"),
    "refused and not known": (1 + np.arange(120) % 4, "7, 9"),
    "four digits": (20 + np.arange(120) ** 2 // 200, "7777, 8888, 9999"),
    "a count": (np.arange(120) % 12, "-1"),
    "codes below": (np.arange(120) % 12, "-9, -8"),
    "blood pressure": (80 + np.arange(120) % 60, "0"),
    "weight": (41.5 + np.arange(120) / 2, "0"),
    "cholesterol": (126 + (np.arange(120) % 40) ** 2 / 4, "0"),
}


@pytest.mark.parametrize("name", list(MARKS))
def test_numbers_that_may_mean_a_missing_one_are_asked_of(name: str) -> None:
    """Ages of 99 among those up to 80 were ages without a word."""
    values, marks = MARKS[name]
    note = f"{marks}: a missing number? state it in missing"
    for times in (9 if values is AMID or "amid" in name else 3, 0):
        rows = np.concatenate([values, *times * [[*map(float, marks.split(", "))]]])
        table = {"x": rows, "died": np.arange(len(rows)) % 2}
        schema, notes = draft.proposed(table, label="died", client=None, source="a")
        assert (note in notes.get("columns.x", "")) == bool(times), notes
        assert schema.columns["x"].bounds == (rows.min(), rows.max())
        assert not schema.columns["x"].missing


@pytest.mark.parametrize(
    "values",
    [
        *([-1, 0, 1], range(100), [*range(8), 9], [4, 6, 8], [0, 5, 10, 20]),
        [*range(60, 120), 99, 99, 99],  # four times as frequent as others, no more
        [*range(50), 77, *range(60, 100, 2), 90, 90],  # rounded numbers are, too
    ],
)
def test_numbers_that_are_not_apart_are_not_asked_of(values: Sequence[int]) -> None:
    table = {"x": [*values] * 9, "died": [0, 1, 1] * (3 * len(values))}
    notes = draft.proposed(table, label="died", client=None, source="a").notes
    assert "a missing number?" not in notes.get("columns.x", "")


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["<5", ">40"], ["5", "40"]),
        (["< 40"], ["40"]),
        (["≤0.5", ">=99", "<1", "<2", "<3"], ["0.5", "99", "1", "2", "3"]),
    ],
)
def test_results_beyond_a_limit_are_read_as_the_limit(
    texts: Sequence[str], numbers: Sequence[str]
) -> None:
    """Of <5 and >40 the lowest and the highest results became the median."""
    rows = {"x": of_rows(lambda n: f"{n}.5"), "y": of_rows(lambda n: "ab"[n % 2])}
    kinds = []
    for cells in (numbers, texts):
        rows["x"][: len(cells)] = cells
        schema, notes = draft.proposed(rows, label="y", client=None, source="a")
        kinds.append(schema.columns["x"])
    assert "limits of detection? limits = true" in notes["columns.x"]
    assert "a missing number" not in notes["columns.x"]
    assert kinds[1] == dataclasses.replace(kinds[0], limits=True)


def test_texts_beside_limits_are_asked_of_as_missing() -> None:
    rows = {"x": of_rows(lambda n: f"{n}.5"), "y": of_rows(lambda n: "ab"[n % 2])}
    rows["x"][:3] = ["<0.1", "clotted", "<5 mg"]
    schema, notes = draft.proposed(rows, label="y", client=None, source="a")
    column = schema.columns["x"]
    assert column.limits and column.missing == ("<5 mg", "clotted")
    assert column.bounds[0] == 0.1
    assert "'clotted', '<5 mg': a missing number?" in notes["columns.x"]


def _numbers_of(median: float, spread: float) -> np.ndarray:
    """240 of one unit."""
    deviations = np.random.default_rng(0).normal(0, spread, 240)
    return median * np.exp(deviations.clip(-2.5 * spread, 2.5 * spread))


@pytest.mark.parametrize(
    ("median", "spread", "factor", "words"),
    [
        (
            0.9,
            0.5,
            88.4,
            "values near 8[0-9.]+ and near 0.[89][0-9]*: two units",
        ),  # creatinine
        (75, 0.2, 1000, "values near 7[0-9]{4} and near 7[0-9.]+: two units"),  # weight
        (
            1.7,
            0.06,
            100,
            "values near 1[67][0-9.]+ and near 1.[67][0-9]*: two units",
        ),  # height
        (
            13,
            0.15,
            10,
            "values near 1[23][0-9.]+ and near 1[23][0-9.]*: two units",
        ),  # haemoglobin
        (
            6,
            0.3,
            18,
            "values near 1[01][0-9.]+ and near [56][0-9.]*: two units",
        ),  # glucose
    ],
)
@pytest.mark.parametrize("by_client", [False, True])
def test_two_units_in_a_column_are_asked_of(
    median: float, spread: float, factor: float, words: str, by_client: bool
) -> None:
    """Creatinine in mg/dl and in µmol/l was one number."""
    values, rows = _numbers_of(median, spread), np.arange(240)
    client = np.array(["A", "B", "C", "S"])[rows % 4]
    is_other = client == "S" if by_client else rows % 12 == 0
    values[is_other] *= factor
    table = {"x": values, "site": client, "died": rows // 4 % 2}
    schema, notes = draft.proposed(table, label="died", client="site", source="a")
    if by_client:
        words = r"median [0-9.]+ at client S, [0-9.]+ elsewhere: another unit\?"
    assert re.search(words, notes["columns.x"])
    assert schema.columns["x"].bounds == (values.min(), values.max())


@pytest.mark.parametrize("every", [3, 20])
@pytest.mark.parametrize("other", [lambda body: 1.8 * body + 32, lambda body: body + 9])
def test_temperatures_in_two_scales_are_asked_of(
    every: int, other: Callable[[np.ndarray], np.ndarray]
) -> None:
    """98.6 amid 37 passed without a word, since no factor leads to it."""
    body, rows = _numbers_of(37, 0.02), np.arange(240)
    mixed = np.where(rows % every == 0, other(body), body)
    table = {"x": mixed, "site": rows % 4, "died": rows // 4 % 2}
    notes = draft.proposed(table, label="died", client="site", source="a").notes
    asked = "two units?"
    assert (asked in notes.get("columns.x", "")) == (mixed.max() > 90)


@pytest.mark.parametrize("text", ["neg", "negativ"])
def test_texts_amid_numbers_may_mean_below_detection(text: str) -> None:
    """A third of the results became the median."""
    table = {"x": of_rows(lambda n: text if n % 3 else f"{n}.5"), "died": DIED}
    table["x"][1::6] = table["x"][::6]
    notes = draft.proposed(table, label="died", client=None, source="a").notes
    asked = f"'{text}': a missing number? if it is beyond a limit (below detection, 90+"
    assert asked in notes["columns.x"]


def test_dates_that_excel_made_of_numbers_are_named() -> None:
    table = {"x": of_rows(lambda n: f"{n % 9}.{n % 7}"), "died": DIED}
    table["x"][4] = "2024-03-04"
    schema, notes = draft.proposed(table, label="died", client=None, source="a")
    assert schema.columns["x"].type == "drop"
    assert "has Excel made a date of a number such as 3.4?" in notes["columns.x"]
    stated = SchemaColumn("number", (0, 9), from_data=False)
    with pytest.raises(
        ValueError, match="write the number where Excel has made a date"
    ):
        from_table(table, schema=dataclasses.replace(schema, columns={"x": stated}))


def test_numbers_of_one_form_are_asked_of() -> None:
    """Costs of 1.234 and times of 14.45 were fractions without a word."""
    rng = np.random.default_rng(3)
    clock = [f"{h}.{m:02}" for h, m in rng.integers([24, 60], size=(ROWS, 2))]
    columns = {
        "cost": [
            f"{n // 1000}.{n % 1000:03}" for n in rng.integers(10**3, 10**6, ROWS)
        ],
        "seen": clock,
        "dose": [*clock[:-1], "8.75"],
        "gap": ["0.345", *of_rows(lambda n: f"{n + 1}.234")[1:]],
        "died": DIED,
    }
    for divider in ",;":
        ask = draft.proposed(
            columns
            if divider == ","
            else {n: [c.replace(".", ",") for c in v] for n, v in columns.items()},
            label="died",
            client=None,
            source="a",
        ).notes
        mark = "." if divider == "," else ","
        assert (
            f'--thousands="{mark}"; if not, --decimal="{mark}"' in ask["columns.cost"]
        )
        assert "times of day? write 08:30" in ask["columns.seen"]
        assert ask.keys() == {"columns.cost", "columns.seen"}
    stated = literals.Notation(".")
    notes = draft.proposed(
        columns, label="died", client=None, source="a", notation=stated
    ).notes
    assert not notes


@pytest.mark.parametrize("marks", [[999, 999], [-9, -9, -9], [9999] * 9])
def test_marks_of_missing_cells_make_no_logarithm(marks: list[int]) -> None:
    """-9 and 999 amid pressures made a model's number one that doubles."""
    pressure = 80 + np.arange(ROWS) % 41
    table = {"dbp": [*pressure, *marks], "died": (ROWS + len(marks)) // 2 * [0, 1]}
    table["died"] += [0] * (len(table["dbp"]) % 2)
    schema, notes = draft.proposed(table, label="died", client=None, source="a")
    assert "a missing number?" in notes["columns.dbp"]
    assert not schema.columns["dbp"].log
    assert set(marks) & set(schema.columns["dbp"].bounds)


@pytest.mark.parametrize("spread", [0.1, 0.5, 1, 2, 3])
def test_one_unit_is_not_asked_of(spread: float) -> None:
    rows = np.arange(240)
    table = {"x": _numbers_of(1, spread), "site": rows % 4, "died": rows // 4 % 2}
    for client in ("site", None):
        notes = draft.proposed(table, label="died", client=client, source="a").notes
        assert "unit" not in notes.get("columns.x", "")


@pytest.mark.parametrize("is_skewed", [False, True])
def test_one_outlier_makes_no_logarithm(is_skewed: bool) -> None:
    """Weights had a logarithm for one in grams."""
    normal = np.random.default_rng(0).normal(0, 1, 300)
    weight = 75 * np.exp(normal * 1.5) if is_skewed else 75 + 12 * normal
    weight[0] = 80_000
    table = {"weight": weight, "died": np.arange(300) % 2}
    schema = draft.proposed(table, label="died", client=None, source="a").schema
    assert schema.columns["weight"].log == is_skewed


@pytest.mark.parametrize("form", ["{}", "{}.0", "{}.00", "{},0"])
def test_codes_are_one_however_a_file_writes_them(form: str) -> None:
    """A hospital wrote 2.0, the next 2 and the third 2,0: both were refused."""
    schema = Schema(
        {"hbp": SchemaColumn("category", values=("0", "1", "2"))},
        label="died",
        classes=("0.0", "1.0"),
    )
    rows = {"hbp": of_rows(lambda n: form.format(n % 3))}
    rows |= {"died": of_rows(lambda n: form.format(n % 2))}
    data = from_table(rows, schema=schema)
    labels = np.concatenate([data.train_labels, data.test_labels])
    inputs = np.concatenate([data.train_inputs, data.test_inputs])
    assert np.bincount(labels).tolist() == [60, 60]
    assert inputs.sum(0).tolist() == [40, 40, 40]


@pytest.mark.parametrize(
    ("mark", "stated"),
    [("-9.0", "-9"), ("-9,0", "-9"), (" -9.00", "-9"), ("-9", "-9.0"), ("-9", "-9")],
)
def test_a_mark_of_missing_cells_is_a_number_however_it_is_written(
    mark: str, stated: str
) -> None:
    """-9.0, as pandas writes it beside blanks, was clamped to the lowest value."""
    number = SchemaColumn("number", (1.0, 9.0), fill=4.0, missing=(stated,))
    schema = Schema({"x": number}, "y", ("a", "b"), decimal="," if "," in mark else ".")
    rows = {"x": [mark, "1", "9", "4"] * 10, "y": ["a", "b"] * 20}
    masks = from_table(rows, schema=schema).changed_cells["x"]
    assert {kind: mask.sum() for kind, mask in masks.items()} == {"missing": 10}


def test_codes_of_one_client_that_no_other_writes_are_asked_of() -> None:
    """m and w at two sites, 1 and 2 at a third became four categories of one column."""
    sex = ["m", "w", "w", ""] * 8 + ["1", "2", "2", ""] * 3
    site = ["A"] * 16 + ["B"] * 16 + ["C"] * 12
    columns = {"site": site, "sex": sex, "y": [0, 1] * 22}
    note = draft.proposed(columns, label="y", client="site", source="a").notes
    asked = "'1', '2' at client C, 'm', 'w' elsewhere: other codes? write them alike"
    assert asked in note["columns.sex"]
    columns["sex"][0] = "1"
    note = draft.proposed(columns, label="y", client="site", source="a").notes
    assert "other codes?" not in note.get("columns.sex", "")
    assert "letters beside words: codes of several sites?" in note["columns.sex"]


@pytest.mark.parametrize(
    ("elsewhere", "words"),
    [
        (["J", "N"], "letters beside words: codes of several sites?"),
        (["1", "0"], "'0', '1' at client C, 'ja', 'nein' elsewhere: other codes?"),
        (["ja", "nein"], ""),
    ],
)
def test_a_class_in_codes_of_two_sites_is_asked_of(
    elsewhere: list[str], words: str
) -> None:
    """A problem of four classes was drafted without a question."""
    columns = {"y": ["ja", "nein"] * 20 + elsewhere * 9, "x": [*range(58)]}
    columns["site"] = ["A"] * 40 + ["C" if words.startswith("'") else "A"] * 18
    note = draft.proposed(columns, label="y", client="site", source="a").notes
    asked = note.get("label", "")
    assert words in asked and bool(asked) == bool(words)
    blood = {"x": ["A", "AB", "B", "O"] * 10, "y": [0, 1] * 20}
    note = draft.proposed(blood, label="y", client=None, source="a").notes
    assert "several sites" not in note.get("columns.x", "")


@pytest.mark.parametrize(
    "classes", ["nein ja", "überlebt verstorben", "survived died", "no yes", "0 1"]
)
def test_the_event_is_the_second_class_of_a_draft(classes: str) -> None:
    """Odds ratios and ROC were those of nein, since ja comes first by letters."""
    other, event = classes.split()
    columns = {"y": [other] * 30 + [event] * 10, "x": [*range(10)] * 4}
    drafted = draft.proposed(columns, label="y", client=None, source="a").schema
    marks = drafted.classes_from_data
    assert drafted.classes == (other, event) == marks[:2] and marks[2:] == (0.75, 0.25)


@pytest.mark.parametrize(
    ("words", "is_category"),
    [
        (["M", "F"] * 10, True),  # a fifth of the cells
        (["M", "F"] * 2, True),
        (["not done"] * 4, True),
        (["M"], False),
    ],
)
def test_words_beside_few_numbers_are_codes(
    words: list[str], is_category: bool
) -> None:
    """M and F of two sites beside 1 and 2 of four were marks of missing cells."""
    sex = [*words, *["1", "2", ""] * 30]
    table = {"sex": sex, "y": [row % 2 for row in range(len(sex))]}
    schema, notes = draft.proposed(table, label="y", client=None, source="a")
    column, note = schema.columns["sex"], notes["columns.sex"]
    assert column.missing == (() if is_category else ("M",))
    assert column.values == (("1", "2", *sorted({*words}), "*") if is_category else ())
    assert ("write them alike, and marks of missing cells blank" in note) == is_category
    if is_category:
        assert "missing number" not in note


def test_words_beside_many_numbers_are_asked_of_as_missing() -> None:
    table = {"x": [*range(100), *["clotted"] * 20], "y": [0, 1] * 60}
    schema, notes = draft.proposed(table, label="y", client=None, source="a")
    assert schema.columns["x"].missing == ("clotted",)
    assert "'clotted': a missing number?" in notes["columns.x"]


def test_per_cents_without_a_sign_are_read_where_bounds_leave_no_doubt() -> None:
    """88 at one site and 88 % at another had no schema that takes both."""
    written = pa.chunked_array([["88 %", "88", "0.88", "101", "51,5"]])
    for bounds, read in {
        (50.0, 100.0): [88, 88, np.nan, np.nan, 51.5],
        (0.0, 100.0): [88, *[np.nan] * 4],  # 0.88 might be 0.88 % or 88 %
        (2.0, 300.0): [88, *[np.nan] * 4],  # 2.5 might be 2.5 % or 250 %
        (0.1, 1.0): [88, *[np.nan] * 4],
    }.items():
        kind = SchemaColumn("percent", bounds)
        numbers, missing = encoding.marked(written, kind, literals.Notation(","))
        np.testing.assert_array_equal(numbers, read)
        assert not missing.any()


def test_pounds_at_one_client_are_asked_of() -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(75, 13, 400).clip(40, 130).round(1)
    site = np.repeat(["A", "B", "C", "D"], 100)
    weight[site == "D"] *= 2.2046
    columns = {"site": site, "weight": weight, "y": np.tile([0, 1], 200)}
    note = draft.proposed(columns, label="y", client="site", source="a").notes
    assert "at client D" in note["columns.weight"]
    assert "another unit?" in note["columns.weight"]


@pytest.mark.parametrize(
    ("values", "is_asked"),
    [
        (["49.500", "345", "812"], True),
        (["49.500", "34.5", "812"], True),
        (["1.234", "345", "2.345"], True),
        (["1.234", "34.5", "812"], False),  # as R and pandas write fractions
        (["1.230", "0.345", "12.000"], False),  # three digits in each
        (["1,230", "345", "812"], True),
    ],
)
def test_a_point_that_may_stand_between_thousands_is_asked_of(
    values: list[str], is_asked: bool
) -> None:
    """49.500 beside 345 was 49.5 without a word, for another column had fractions."""
    other = [cell.replace(".", values[0][-4]) for cell in each("0.5", "1.5")]
    table = {"age": other, "x": each(*values), "died": DIED}
    columns = table_file.columns_of(table, "a")
    if not is_asked:
        draft.proposed(columns, label="died", client=None, source="a")
        return
    remedy = (
        r"digits behind it: .* \(--thousands=.*\) or before a fraction \(--decimal="
    )
    with pytest.raises(
        ValueError, match=f"numbers of x .'{values[0]}' in row 1.*{remedy}"
    ):
        draft.proposed(columns, label="died", client=None, source="a")
    stated = literals.Notation(values[0][-4])
    schema, _ = draft.proposed(
        columns, label="died", client=None, source="a", notation=stated
    )
    assert schema.columns["x"].type == "number"


def test_per_cents_with_decimal_commas_are_read(tmp_path: pathlib.Path) -> None:
    content = column(of_rows(lambda n: f"{n % 97},1 %"))
    schema, _, _ = read(tmp_path / "a.csv", content)
    assert schema.decimal == "," and schema.columns["x"].bounds == (0.1, 96.1)
    points = {"age": of_rows(lambda n: f"{n}.5"), "x": each("14,1 %"), "died": DIED}
    with pytest.raises(ValueError, match=r"commas in x .*points in age .*one way"):
        read(tmp_path / "a.csv", written(points))


@pytest.mark.parametrize(
    ("classes", "asked"),
    [
        (["0", "1", "9"], "9"),
        (["1", "2", "99"], "99"),
        (["ja", "nein", "unbekannt"], "unbekannt"),
        (["0", "9"], ""),
        (["none", "some"], ""),
        ([*"123456789"], ""),
    ],
)
def test_a_class_that_may_mean_that_nobody_knows_is_asked_of(
    classes: list[str], asked: str
) -> None:
    table = {"age": AGES, "died": each(*classes)}
    notes = draft.proposed(table, label="died", client=None, source="a").notes
    question = f"{asked}: a class? if not, leave such rows out"
    assert notes.get("label", "") == (question if asked else "")


@pytest.mark.parametrize("mark", ["1900-01-01", "9999-12-31", "unknown", "2024-02-31"])
def test_dates_that_may_mean_a_missing_one_are_asked_of(mark: str) -> None:
    dates = of_rows(lambda n: f"2024-01-{1 + n % 31:02}")
    table = {"x": [mark, *dates[1:]], "died": DIED}
    schema, notes = draft.proposed(table, label="died", client=None, source="a")
    assert f"{mark.strip()}" in notes["columns.x"]
    assert "a missing date?" in notes["columns.x"]
    assert schema.columns["x"].type == "date"
    mended = dataclasses.replace(schema.columns["x"], missing=(mark,), fill=19_800.0)
    data = from_table(table, schema=dataclasses.replace(schema, columns={"x": mended}))
    assert data.changed_cells["x"]["missing"].sum() == 1


def test_persons_at_several_clients_are_counted_before_a_training() -> None:
    table = {
        "patient": [f"p{n // 2}" for n in range(ROWS)],
        "site": [["A", "B"][n % 2 * (n < 8) or n // 100] for n in range(ROWS)],
        "age": AGES,
        "died": DIED,
    }
    notes = draft.proposed(table, label="died", client="site", source="a").notes
    assert "a: 4 of 60 persons have rows at several clients" in notes["rows"]
    assert "rows; keep the rows that each has at one client" in notes["rows"]
    numbered = table | {
        "patient": [n % 25 for n in range(ROWS)],
        "site": ["A"] * 60 + ["B"] * 30 + ["C"] * 30,
    }
    notes = draft.proposed(numbered, label="died", client="site", source="a").notes
    question = "rows; does each client number its own? Then make the id unique"
    assert question in notes["rows"]
    table["site"] = ["A"] * 60 + ["B"] * 60
    notes = draft.proposed(table, label="died", client="site", source="a").notes
    assert "rows" not in notes


def test_spellings_of_clients_classes_and_categories_are_asked_of() -> None:
    """The draft asked, and a training under a schema did not."""
    table = {
        "x": each("krank", "KRANK", "gesund"),
        "site": each("Bern", "BERN", "Graz"),
        "died": each("gÃ¼nstig", "tot"),
    }
    notes = draft.proposed(table, label="died", client="site", source="a").notes
    alike = " differ in capitals or blanks alone: write them one way"
    assert notes["client"] == f"'BERN', 'Bern'{alike}"
    assert notes["columns.x"] == f"'KRANK', 'krank'{alike}"
    assert "was 'gÃ¼nstig' read in a wrong encoding?" in notes["label"]


def test_categories_beside_limits_are_no_numbers() -> None:
    table = {"x": each("<1", "1-2", ">2"), "died": DIED}
    schema, _ = draft.proposed(table, label="died", client=None, source="a")
    assert schema.columns["x"].type == "category"
