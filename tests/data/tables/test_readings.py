"""Odd tables of hospitals: each is read as it was meant, or refused in one sentence."""

import gzip
import pathlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import pandas
import pytest
from commands import ROOT

from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import cells, draft, literals, table, table_file
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
    "NHS numbers": ("nhs", of_rows(lambda n: f"{7304561 + n % 90:010}"), "a code, no"),
    "letters that look like powers": (
        "x",
        of_rows(lambda n: f"{n % 60}E05"),
        "'0E05': a code, no number",
    ),
    "a number of each row": ("x", of_rows(lambda n: n + 1), "an identifier?"),
    "patients": ("patient", of_rows(lambda n: f"P{n}"), "a person, by"),
    "patients by number": ("PatientID", of_rows(lambda n: n), "a person, by"),
    "numbered, rows deleted": ("x", of_rows(lambda n: n + n // 9), "an identifier?"),
    "seven digits in every row": (
        "account",
        of_rows(lambda n: 3_000_000 + n % 40),
        "7 digits in every row: a code?",
    ),
    "an id that repeats": ("x id", of_rows(lambda n: 7 * (n % 60)), "by its name"),
    "names of an id that repeats": (
        "x id",
        of_rows(lambda n: f"p{n % 60}"),
        "by its name",
    ),
    "a text of its own in each row": ("x", of_rows(lambda n: f"note {n}"), "own in ev"),
    "one number": ("x", each(7), "constant: '7' in every row"),
    "one text": ("x", each("Spital"), "constant: 'Spital'"),
    "one of all spellings": (
        "x",
        each("Genève", LATIN["Genève"]),
        "constant: 'Genève'",
    ),
    "no value": ("x", each("", "NA", "n/a", "?", "NaT", "null"), "no cell has a value"),
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
    "days without marks": ("x", of_rows(lambda n: f"202401{n % 28 + 1:02}"), "8 digit"),
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
        "'1 Feb 2024': a number or a date? write it plainly",
    ),
    "durations": ("x", of_rows(lambda n: f"{n % 30} days"), "a number or a date?"),
    "signs behind numbers": ("x", of_rows(lambda n: f"{n % 60}-"), "a number or a da"),
    "telephones": ("phone", of_rows(lambda n: 4179 + 7 * (n % 60)), "by its name"),
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
    }
    notes = draft.proposed(table, label="died", client=None, source="a").notes
    known = "{} only where died = {}: known after the outcome?"
    assert known.format("missing", "no") in notes["columns.year"]
    assert known.format("filled", "no") in notes["columns.left"]
    assert known.format("missing", "no") in notes["columns.seen"]
    assert "outcome" not in notes["columns.asked"]


@pytest.mark.hole
def test_whole_numbers_that_no_two_rows_share_are_an_identifier() -> None:
    """nhefs: seqn, unique in 1,629 rows of 233 to 25,061, stayed a number."""
    rng = np.random.default_rng(0)
    table = {
        "died": rng.choice(["yes", "no"], 400),
        "seqn": rng.choice(np.arange(233, 9000), 400, replace=False),
        "dose": rng.choice(10**7, 400, replace=False),
        "marital": rng.integers(1, 9, 400),
    }
    schema, notes = draft.proposed(table, label="died", client=None, source="a")
    assert schema.columns["seqn"].type == "drop"
    assert "an identifier?" in notes["columns.seqn"]
    assert schema.columns["dose"].type == "number"
    assert "8 whole numbers: a code?" in notes["columns.marital"]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (each("\u200bBern", "Bern", "Ge\u00adnf", "Genf"), ("Bern", "Genf", "*")),
        (each("\uff22", "B", "A\u3000"), ("A", "B", "*")),
        (
            each("in pain\nat night", "in pain at night", "no"),
            ("in pain at night", "no", "*"),
        ),
        (each("10\u00b2", "5\u00b2"), ("10\u00b2", "5\u00b2", "*")),  # no 102
    ],
)
def test_texts_that_look_the_same_are_one(
    cells: list[str], values: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    assert read(tmp_path / "a.csv", column(cells)).schema.columns["x"].values == values


def test_texts_that_differ_in_capitals_are_noted() -> None:
    """Yes and YES became two classes, and BERN a hospital of its own."""
    table = {
        "smoker": each("Yes", "No", "YES"),
        "hospital": each("Bern", "BERN", "Genf"),
        "died": each("no", "No", "yes", "yes"),
    }
    _, notes = draft.proposed(table, label="died", client="hospital", source="a")
    assert notes == {
        "columns.smoker": "'YES' and 'Yes' differ in capitals alone: write them one "
        "way",
        "client": "'BERN' and 'Bern' differ in capitals alone: write them one way",
        "label": "'No' and 'no' differ in capitals alone: write them one way",
    }


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        ([*range(1, 119), -9, -9], "-9"),
        ([*range(118), 999.5, 999, 999], None),
        ([*range(118), 999, 999], "999"),
        ([*range(10, 129), 9999], None),  # once, it may be a number
        ([*range(-60, 58), -99, -99], None),
        ([*range(118), 119, 199], None),
    ],
)
def test_nines_apart_from_all_numbers_are_noted(cells: list, mark: str | None) -> None:
    table = {"x": [n + 0.5 if 0 <= n < 118 else n for n in cells]}
    table["died"] = DIED[: len(cells)] + ["no"] * (len(cells) - ROWS)
    _, notes = draft.proposed(table, label="died", client=None, source="a")
    expected = f"{mark}: a missing number? state it in missing"
    assert notes.get("columns.x") == (expected if mark else None)


def test_a_few_codes_are_categories(tmp_path: pathlib.Path) -> None:
    schema, notes, _ = read(tmp_path / "a.csv", column(each("01", "02", "10")))
    assert schema.columns["x"].values == ("01", "02", "10", "*")
    assert notes["columns.x"] == "'01': a code, no number"


REFUSED: dict[str, tuple[bytes, str]] = {
    "thousands or fractions": (
        column(grouped(",")),
        r'every .,. in numbers of x \(.* in row 1.*--thousands=","\).*--decimal=","',
    ),
    "points among semicolons": (
        column(of_rows(lambda n: f"{n + 1}.697"), divider=";"),
        r'every .\.. in numbers of x \(.1.697. in row 1.*--thousands="\."',
    ),
    "points among decimal commas": (
        written({"x": grouped("."), "z": of_rows(lambda n: f"{n},5"), "died": DIED}),
        r"every .\.. in numbers of x",
    ),
    "fractions of both kinds": (
        written({"x": each("1,5"), "z": each("1.5", "2.25"), "died": DIED}),
        "decimal commas in x .*decimal points in z .*one way",
    ),
    **{
        f"a hospital {mark!r}": (
            column(["Bern"] * (ROWS - 1) + [mark], "hospital"),
            f"hospital names no client .'.*' in row {ROWS}",
        )
        for mark in ("", "NA", "-")
    },
    **{
        f"a label {mark!r}": (
            written({"age": each(1, 2, 3), "died": [*DIED[:-1], mark]}),
            f"column died lacks a label .* in row {ROWS}",
        )
        for mark in ("?", "-", "null", "n/a", "NaT", "#N/A", "\u00a0", "--", "\u2014")
    },
    "one name in two forms": (
        written({"Zürich": DIED, LATIN["Zürich"]: DIED, "died": DIED}),
        "2 columns have the name 'Zürich'",
    ),
    "a quote in a cell": (
        column(['5" high', *each("a")[1:]]),
        "line 2, has a quote inside a cell; put quotes around the whole",
    ),
    "a quote that is not doubled": (
        column(['"said "hi" to"', *each("a")[1:]]),
        "line 2, has a quote inside a cell",
    ),
    "blanks around quotes": (
        column(['"a" ', *each("b")[1:]]),
        "line 2, has a quote inside a cell",
    ),
    "half a letter": (column(each("a")) + b"\xc3", "has 1 values"),
    "two files put together": (
        column(each("a", "b")) * 2,
        f"has its header again .'age' in row {ROWS + 1}; the first row is 1.: leave",
    ),
    "three files of texts put together": (
        written({"x": each("a", "b"), "died": DIED}) * 3,
        f"header again .'x' in row {ROWS + 1}, the first of 2;",
    ),
    "no header": (
        b"\n".join(b"-1.5,%d.25,1" % n for n in range(ROWS)),
        "line 1, holds numbers alone; the first line must name the columns",
    ),
    "a comma at the end of each line": (
        column(each("a", "b")).replace(b"\n", b",\n"),
        "line 1: column 4 has no name; name it, or delete it",
    ),
    "R's write.table": (
        b"age,died\n" + b"\n".join(b"%d,30,no" % n for n in range(ROWS)),
        "line 2, has 3 values; the header names 2",
    ),
    "a comment above the header": (
        b"# of 2024\n" + column(each("a", "b")),
        "line 2, has 3 values; the header names 1",
    ),
}


@pytest.mark.filterwarnings("ignore:.*Windows-1252")
@pytest.mark.parametrize("case", list(REFUSED))
def test_what_nobody_can_read_is_one_sentence(
    case: str, tmp_path: pathlib.Path
) -> None:
    content, message = REFUSED[case]
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path / "a.csv", content)
    assert "\n" not in str(caught.value)


WITHOUT_A_SCHEMA = {
    "thousands": (grouped(","), r'between thousands \(.*thousands = ","'),
    "dates with slashes": (each("31/12/2024", "1/2/2024"), 'type = "date"'),
    "dates among texts": (each("31.12.2024", "a"), "holds numbers and texts .'a' in"),
    "times": (each("08:30", "09:45"), 'holds times .*type = "time"'),
    "per cents": (each("45 %", "7 %"), 'holds per cents .*type = "percent"'),
    "marks of missing texts": (each("a", "b", "?"), "lacks a text .'[?]' in row 3"),
}


@pytest.mark.parametrize("case", list(WITHOUT_A_SCHEMA))
def test_a_run_without_a_schema_names_the_type_that_a_schema_would_state(
    case: str, tmp_path: pathlib.Path
) -> None:
    values, message = WITHOUT_A_SCHEMA[case]
    path = tmp_path / "a.csv"
    path.write_bytes(column(values))
    with pytest.raises(ValueError, match=f"column x .*{message}"):
        table.load_file(path, TableSettings(label_column="died"))


def test_points_among_semicolons_are_refused_without_a_schema(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(column(of_rows(lambda n: f"{n + 1}.697"), divider=";"))
    with pytest.raises(ValueError, match="three digits behind it"):
        table.load_file(path, TableSettings(label_column="died"))


@pytest.mark.parametrize("town", list(LATIN))
def test_spellings_of_one_text_are_one(town: str, tmp_path: pathlib.Path) -> None:
    """As a client, as a category, in the header and in the schema."""
    other = LATIN[town]
    wards = each(town, other, f" {other}\u00a0", "Bern")
    content = written({other: each(town, other, "a"), "hospital": wards, "died": DIED})
    schema, _, data = read(tmp_path / "a.csv", content)
    assert list(schema.columns) == [town] and town in schema.columns[town].values
    assert data.writer_names == tuple(sorted(("Bern", town)))
    told = to_toml(schema).replace(town, other)
    assert from_toml(told, "s") == schema
    path = tmp_path / "a.csv"
    settings = TableSettings(label_column="died", client_column="hospital")
    alone = table.load_file(path, settings)
    assert alone.writer_names == data.writer_names
    dropped = TableSettings(label_column="died", drop_columns=other)
    assert town not in table.load_file(path, dropped).columns


@pytest.mark.parametrize(
    ("header", "divider", "name"),
    [
        ("weight\n(kg)", ";", "weight (kg)"),
        ("weight\r\n (kg)", ",", "weight (kg)"),
        (" weight\u00a0(kg) ", "\t", "weight (kg)"),
    ],
)
def test_a_header_is_one_line_of_names(
    header: str, divider: str, name: str, tmp_path: pathlib.Path
) -> None:
    columns = {header: each(1.5, 2.5, 3.5), "age": each(*AGES), "died": DIED}
    schema, _, _ = read(tmp_path / "a.csv", written(columns, divider))
    assert list(schema.columns) == [name, "age"]


@pytest.mark.parametrize(
    "listed", ["comment, free,id", '"comment, free",id', "id,'comment, free'"]
)
def test_names_with_commas_are_left_out_as_they_are_written(
    listed: str, tmp_path: pathlib.Path
) -> None:
    content = written(
        {
            "comment, free": of_rows(str),
            "id": of_rows(str),
            "x": each(1, 2),
            "died": DIED,
        }
    )
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    data = table.load_file(
        path, TableSettings(label_column="died", drop_columns=listed)
    )
    assert data.train_inputs.shape[1] == 1
    wrong = TableSettings(label_column="died", drop_columns="commentt, free")
    with pytest.raises(ValueError, match="got 'commentt'"):
        table.load_file(path, wrong)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_who_has_two_rows_trains(size: int) -> None:
    """46 of 120 wards of two rows were left out."""
    wards = of_rows(lambda n: n // size)
    columns = {"ward": wards, "x": np.arange(ROWS), "died": DIED}
    whole = r"12 of 60 clients train nothing, since all their rows are for the test: 12"
    with pytest.warns(UserWarning, match=whole) if size == 2 else nullcontext():
        data = table.from_table(columns, label="died", client="ward")
    counts = np.bincount(data.train_writers)
    assert counts.min() >= 2 and len(data.train_labels) + len(data.test_labels) == ROWS
    assert len(data.test_labels) == ROWS // 5
    assert len(counts) == (48 if size == 2 else ROWS // size)


def test_a_large_ward_gives_rows_where_small_ones_would_lack_them() -> None:
    wards = ["large"] * 60 + of_rows(lambda n: n // 2)[:60]
    data = table.from_table(
        {"ward": wards, "x": np.arange(ROWS), "died": DIED}, label="died", client="ward"
    )
    assert len(np.bincount(data.train_writers)) == 31
    assert len(data.test_labels) == ROWS // 5


FRAME = pandas.DataFrame(
    {
        "seen": pandas.date_range("2024-01-01", periods=ROWS, tz="Europe/Zurich"),
        "ward": pandas.Categorical(each("a", "b", "c")),
        "dose": pandas.array([None, 1.5, 2.5] * (ROWS // 3), dtype="Float64"),
        "old": pandas.array([True, False] * (ROWS // 2)),
        "at": [
            pandas.Timestamp(f"2024-01-01 {n % 24:02}:30").time() for n in range(ROWS)
        ],
        "died": DIED,
    }
)


def test_a_frame_is_read_by_its_types() -> None:
    schema, _ = draft.proposed(FRAME, label="died", client=None, source="frame")
    kinds = {name: declared.type for name, declared in schema.columns.items()}
    assert kinds == dict(
        seen="date", ward="category", dose="number", old="number", at="time"
    )
    data = table.from_table(FRAME, schema=schema)
    seen = np.sort(np.concatenate([data.train_inputs, data.test_inputs])[:, 0])
    np.testing.assert_allclose(seen, np.linspace(-1, 1, ROWS), atol=1e-6)
    assert schema.columns["dose"].fill == 1.5


def test_whole_numbers_of_a_frame_may_be_large() -> None:
    """Arrow's own error named no column."""
    large = pandas.array([2**63 + 1, 5, None, 7] * (ROWS // 4), dtype="UInt64")
    frame = pandas.DataFrame({"count": large, "died": DIED})
    schema, _ = draft.proposed(frame, label="died", client=None, source="frame")
    assert schema.columns["count"].bounds == (5, 2.0**63)
    assert table.from_table(frame, schema=schema).train_inputs.shape[1] == 1


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.assign(wait=pandas.Timedelta("3h")), "wait holds durations; .*seconds"),
        (
            pandas.concat([FRAME, FRAME[["dose"]]], axis=1),
            "has two columns of the name 'dose'; rename one",
        ),
        (
            FRAME.rename(columns={"dose": " "}),
            "has a column of the name ''; rename one",
        ),
        (
            FRAME.rename(columns={"dose": "Zürich", "old": LATIN["Zürich"]}),
            "two columns of the name 'Zürich'",
        ),
    ],
)
def test_a_frame_that_cannot_be_read_names_its_column(
    frame: pandas.DataFrame, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        table.from_table(frame, label="died")


def test_a_file_of_another_program_is_the_same_table(tmp_path: pathlib.Path) -> None:
    """Parquet, xlsx, SPSS, Stata and SAS's transport, against the CSV file."""
    pytest.importorskip("openpyxl")
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pandas.DataFrame(
        {
            "ward": each("Zürich", "Bern", "Genève"),
            "dose": [0.5 + n % 7 for n in range(ROWS)],
            "visits": [n % 5 for n in range(ROWS)],
            "died": DIED,
        }
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    codes = frame.assign(died=(frame["died"] == "yes").astype(float))
    labels = {"variable_value_labels": {"died": {0.0: "no", 1.0: "yes"}}}
    pyreadstat.write_sav(codes, tmp_path / "a.sav", **labels)
    pyreadstat.write_dta(codes, tmp_path / "a.dta", **labels)
    pyreadstat.write_xport(frame, tmp_path / "a.xpt")
    whole, _ = table_file.read_table(tmp_path / "a.csv")
    wanted = [cells.texts(one).to_pylist() for one in whole.values()]
    schema, _ = draft.proposed(whole, label="died", client="ward", source="a")
    (tmp_path / "s.toml").write_text(to_toml(schema))
    settings = TableSettings(schema=str(tmp_path / "s.toml"))
    data = table.load_file(tmp_path / "a.csv", settings)
    for ending in ("parquet", "xlsx", "sav", "dta", "xpt"):
        path = tmp_path / f"a.{ending}"
        found, form = table_file.read_table(path)
        assert form is None and list(found) == list(whole)
        assert [cells.texts(one).to_pylist() for one in found.values()] == wanted, (
            ending
        )
        assert table.load_file(path, settings).fingerprint == data.fingerprint
        content = path.read_bytes()
        path.write_bytes(b"PK no such file")
        with pytest.raises(ValueError, match=r"cannot be read \(.*its ending") as error:
            table_file.read_table(path)
        assert str(error.value).count(str(path)) == 1
        (tmp_path / "b.csv").write_bytes(content)
        with pytest.raises(ValueError, match="give it the ending of its format"):
            table_file.read_table(tmp_path / "b.csv")
        with pytest.raises(FileNotFoundError) as absent:
            table_file.read_table(tmp_path / f"none.{ending}")
        assert absent.value.filename.endswith(f"none.{ending}")


@pytest.mark.hole
def test_codes_that_a_form_shows_with_zeros_are_codes(tmp_path: pathlib.Path) -> None:
    """pandas 46895, readxl 389, pyreadstat 93: 00501 of a form `00000` was 501."""
    openpyxl = pytest.importorskip("openpyxl")
    pyreadstat = pytest.importorskip("pyreadstat")
    codes = [501 + 37 * (n % 40) for n in range(ROWS)]
    book = openpyxl.Workbook()
    book.active.append(["x", "plain", "died"])
    for n in range(ROWS):
        book.active.append([codes[n], codes[n], DIED[n]])
        book.active.cell(book.active.max_row, 1).number_format = "00000"
    book.save(tmp_path / "a.xlsx")
    frame = pandas.DataFrame({"x": codes, "plain": codes, "died": DIED}, dtype=object)
    frame = frame.astype({"x": float, "plain": float})
    frame.loc[3, "x"] = np.nan
    for ending, form in (("sav", "N5"), ("dta", "%05.0f"), ("xpt", "Z5")):
        write = getattr(pyreadstat, f"write_{ending.replace('xpt', 'xport')}")
        write(frame, tmp_path / f"a.{ending}", variable_format={"x": form})
    for ending in ("xlsx", "sav", "dta", "xpt"):
        columns, _ = table_file.read_table(tmp_path / f"a.{ending}")
        schema, notes = draft.proposed(columns, label="died", client=None, source="a")
        assert notes["columns.x"] == "'00501': a code, no number", ending
        assert schema.columns["plain"].bounds == (501, 501 + 37 * 39)
        blank = "00612" if ending == "xlsx" else ""
        assert cells.texts(columns["x"]).to_pylist()[:4] == [
            *("00501", "00538", "00575", blank)
        ]


@pytest.mark.hole
def test_types_of_pandas_alone_are_texts_or_refused(tmp_path: pathlib.Path) -> None:
    """aws-sdk-pandas 675, arrow 35855: the month 2020-01 was 600; a cut, a fault."""
    frame = pandas.DataFrame(
        {
            "month": pandas.period_range("2020-01", periods=12, freq="M").repeat(10),
            "cut": pandas.cut(range(ROWS), [-1, 60, ROWS]),
            "died": DIED,
        }
    )
    columns = table_file.columns_of(frame, "a")
    assert columns["month"][0].as_py() == "2020-01"
    assert cells.distinct(columns["cut"])[0] == ["(-1, 60]", "(60, 120]"]
    frame.drop(columns="cut").to_parquet(tmp_path / "a.parquet")
    read = (
        "import pathlib, sys; from fedsvp_jax.data.tables import table_file\n"
        "table_file.read_table(pathlib.Path(sys.argv[1]))"
    )
    for line in ("", "import pandas.core.arrays.arrow.extension_types\n"):
        words = [sys.executable, "-c", line + read, str(tmp_path / "a.parquet")]
        ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        assert "column month has a type of the program" in ended.stderr


@pytest.mark.hole
def test_rounded_amounts_are_no_code_and_one_number_or_a_blank_is_asked_about() -> None:
    """TableOne 200: an income of 45000 or 65000 was a code of five digits."""
    table = {
        "income": [(45000, None, 65000)[n % 3] for n in range(ROWS)],
        "post": [10115 + 7 * (n % 50) for n in range(ROWS)],
        "asked": [(None, 1)[n % 2] for n in range(ROWS)],
        "ticked": each("", "x"),
        "died": each("yes", "no", "no", "yes"),
    }
    schema, notes = draft.proposed(table, label="died", client=None, source="a")
    assert schema.columns["income"].bounds == (45000, 65000)
    assert notes["columns.post"] == "5 digits in every row: a code?"
    assert notes["columns.asked"].startswith("constant: '1' in every cell that has a")
    assert schema.columns["ticked"].values == ("x", "*")


@pytest.mark.hole
def test_a_table_without_rows_is_one_sentence_in_every_format(
    tmp_path: pathlib.Path,
) -> None:
    """It was 0 classes, columns of one length, or `0 sheets hold a table: ;`."""
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pandas.DataFrame({"age": [1.0], "died": ["no"]}).iloc[:0]
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    pyreadstat.write_sav(frame, tmp_path / "a.sav")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(ValueError, match="has no rows"):
            table_file.read_table(path)


def test_a_per_cent_of_a_sheet_is_that_of_a_csv_file(tmp_path: pathlib.Path) -> None:
    """47 % of a workbook was 0.47, and of a CSV file 47."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["x", "shown", "died"])
    for n in range(ROWS):
        book.active.append([n % 97 / 100, n, DIED[n]])
        book.active.cell(book.active.max_row, 1).number_format = "0.0%"
        book.active.cell(
            book.active.max_row, 2
        ).number_format = '0" %"'  # 47 is shown as 47 %
        if n == 50:
            book.active.append([None, "", None])
    book.active["A200"].number_format = "0%"  # a cell that is empty
    book.save(tmp_path / "a.xlsx")
    found, _ = table_file.read_table(tmp_path / "a.xlsx")
    assert len(found["x"]) == ROWS
    np.testing.assert_allclose(
        cells.values_of(found["x"], "percent", literals.Notation()),
        [n % 97 for n in range(ROWS)],
    )
    drafted = draft.proposed(found, label="died", client=None, source="a").schema
    assert drafted.columns["x"].type == "percent"
    assert drafted.columns["x"].bounds == (0, 96)
    assert cells.texts(found["shown"]).to_pylist() == [str(n) for n in range(ROWS)]


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_words_of_some_values_alone_leave_a_scale_numbers(
    ending: str, tmp_path: pathlib.Path
) -> None:
    """99 = "not stated" is a mark; 0 = "no pain" and 10 = "worst" end a scale."""
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pandas.DataFrame(
        {
            "age": [99.0 if n % 40 == 5 else 20.0 + n % 60 for n in range(ROWS)],
            "pain": [float(n % 11) for n in range(ROWS)],
            "sex": [1.0 + n % 2 for n in range(ROWS)],
            "blank": [None if n % 9 else 1.0 for n in range(ROWS)],
            "grade": [9.0 if n % 40 == 7 else 1.0 + n % 5 for n in range(ROWS)],
            "died": DIED,
        }
    )
    labels = {
        "age": {99: "not stated"},
        "pain": {0: "no pain", 10: "worst"},
        "sex": {1: "f", 2: "m", 9: "unknown"},
        "blank": {1: "yes", 0: "no"},
        "grade": {9: "not graded"},
    }
    path = tmp_path / f"a.{ending}"
    getattr(pyreadstat, f"write_{ending}")(frame, path, variable_value_labels=labels)
    found, _ = table_file.read_table(path)
    drafted = draft.proposed(found, label="died", client=None, source="a")
    columns = drafted.schema.columns
    assert (columns["age"].type, columns["age"].missing) == ("number", ("not stated",))
    assert columns["age"].bounds == (20, 79)
    assert (columns["pain"].type, columns["pain"].bounds) == ("number", (0, 10))
    assert columns["sex"].values == ("f", "m", "*")
    assert columns["grade"].missing == ("not graded",)
    assert cells.distinct(found["blank"])[0] == ["", "yes"]


def test_a_file_that_gzip_packed_is_read(tmp_path: pathlib.Path) -> None:
    path, content = tmp_path / "a.csv.gz", column(list(map(str, COSTS)))
    path.write_bytes(gzip.compress(content))
    found, form = table_file.read_table(path)
    assert form is not None and form.divider == ","
    assert cells.texts(found["x"]).to_pylist() == list(map(str, COSTS))
    path.write_bytes(gzip.compress(content)[:-40])
    with pytest.raises(ValueError, match=r"a\.csv\.gz is damaged: gzip cannot unpack"):
        table_file.read_table(path)


@pytest.mark.parametrize("rows", [10, 60_000])
def test_a_record_may_be_longer_than_a_block(rows: int, tmp_path: pathlib.Path) -> None:
    """Blocks of 2^20 bytes are read; cells with line breaks cross their ends."""
    long, path = "x" * 2**21, tmp_path / "a.csv"
    texts = [long if n == 5 else f"{n}\n{n}, {n}" for n in range(rows)]
    lines = [f'"{text}",{n}' for n, text in enumerate(texts)]
    path.write_text("\n".join(["note,number", *lines]))
    found, _ = table_file.read_table(path)
    assert found["number"].to_pylist() == [str(n) for n in range(rows)]
    assert found["note"].to_pylist() == [text.replace("\n", " ") for text in texts]


def test_a_draft_takes_little_more_memory_than_its_file(tmp_path: pathlib.Path) -> None:
    """Reading took eight times the file; the columns alone are two times it."""
    path = tmp_path / "a.csv"
    line = ",".join(["12.5", "7", "Bern", "31"] * 3)
    path.write_bytes(
        b"\n".join([b"a,b,c,d,e,f,g,h,i,j,k,l", *[line.encode()] * 600_000])
    )
    program = (
        "import sys, pathlib, re; from fedsvp_jax.data.tables import table_file; "
        "peak = lambda: int(re.search('HWM:(.*)kB', open('/proc/self/status').read())"
        "[1]); small, large = map(pathlib.Path, sys.argv[1:]); "
        "table_file.read_table(small); before = peak(); "
        "table_file.read_table(large); print(peak() - before)"
    )
    small = tmp_path / "small.csv"
    small.write_bytes(path.read_bytes()[:4000].rsplit(b"\n", 1)[0])
    ended = subprocess.run(
        [sys.executable, "-c", program, small, path],
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    assert path.stat().st_size < 1024 * int(ended.stdout) < 5 * path.stat().st_size


def test_a_workbook_of_two_tables_is_refused(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("openpyxl")
    with pandas.ExcelWriter(tmp_path / "a.xlsx") as book:
        for sheet in ("one", "two"):
            FRAME[["dose", "died"]].to_excel(book, sheet_name=sheet)
    with pytest.raises(ValueError, match="2 sheets hold a table: one, two; leave one"):
        table_file.read_table(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    ("rows", "merged", "message"),
    [
        (
            [["Patient", None, "End"], ["age", "x", "died"]],
            "A1:B1",
            "has merged cells",
        ),
        ([["Export", None, None], ["age", "x", "died"]], "", "column 2 has no name in"),
        (
            [[None, "x", "died"], [1, 1, "no"], [1, 2, "yes"]],
            "",
            "column 1 has no n",
        ),
        ([["x", "x", "died"], [1, 1, "no"]], "", "two columns of the name 'x'"),
    ],
)
def test_the_names_of_a_workbook_stand_in_its_first_row(
    rows: list, merged: str, message: str, tmp_path: pathlib.Path
) -> None:
    """`died` became a class, and x a mark of missing numbers."""
    path = workbook(tmp_path, rows, merged)
    with pytest.raises(ValueError, match=message):
        table_file.read_table(path)


def workbook(folder: pathlib.Path, rows: list[list], merged: str = "") -> pathlib.Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    if merged:
        book.active.merge_cells(merged)
    book.save(folder / "a.xlsx")
    return folder / "a.xlsx"


@pytest.mark.parametrize("cell", ["=A2*2", '=IF(A2>1,"","x")'])
def test_a_formula_whose_value_was_not_saved_is_refused(
    cell: str, tmp_path: pathlib.Path
) -> None:
    """As programs write them that compute nothing; the column was dropped as empty."""
    path = workbook(tmp_path, [["a", "twice", "ill"], [1, 2, "no"], [2, cell, "yes"]])
    with pytest.raises(ValueError, match=r"formulas without values; open it in a sp"):
        table_file.read_table(path)
    with zipfile.ZipFile(path) as parts:
        content = {name: parts.read(name) for name in parts.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    empty = rb'(<c r="B3")[^>]*>(<f>.*?</f>)<v ?/?>(</v>)?'
    # As Excel saves a number, and a text that is empty.
    for kind, value, text in ((b"", b"4", "4"), (b' t="str"', b"", "")):
        filled = rb"\1%b>\2<v>%b</v>" % (kind, value)
        saved = content | {sheet: re.sub(empty, filled, content[sheet])}
        assert saved != content
        with zipfile.ZipFile(path, "w") as parts:
            for name, part in saved.items():
                parts.writestr(name, part)
        column = table_file.read_table(path)[0]["twice"]
        assert cells.texts(column).to_pylist() == ["2", text]


def test_empty_columns_and_names_of_rows_do_not_matter(tmp_path: pathlib.Path) -> None:
    rows = [[None, None, "x", "died"], ["a", None, 1.5, "no"], ["b", None, 2, "yes"]]
    columns, _ = table_file.read_table(workbook(tmp_path, rows))
    assert list(columns) == ["Unnamed: 0", "x", "died"]
    assert cells.numbers(columns["x"], literals.Notation()).tolist() == [1.5, 2.0]


@pytest.mark.parametrize(
    ("text", "form", "date"),
    [
        ("3/4/2024", "dd/mm/yyyy", "2024-04-03"),
        ("3-4-2024 08:30", "mm/dd/yyyy", "2024-03-04"),
        ("3.4.2024", "mm/dd/yyyy", "2024-04-03"),
        ("3/4/2024", "yyyy-mm-dd", "NaT"),
        ("30/2/2024", "dd/mm/yyyy", "NaT"),
    ],
)
def test_a_date_is_what_its_form_says(text: str, form: str, date: str) -> None:
    days = literals.days(text, form)
    wanted = np.datetime64(date)
    assert np.isnan(days) if np.isnat(wanted) else days == wanted.astype(int)


def _with_others(cell: str) -> Any:
    """A table whose column `kind` holds the cell in every row, by a schema with `*`."""
    kinds = SchemaColumn("category", values=("elective", "urgent", "*"))
    schema = Schema(label="died", classes=("no", "yes"), columns={"kind": kinds})
    rows = {"died": DIED, "kind": [cell] * ROWS}
    return table.from_table(rows, schema=schema)


def test_a_column_without_any_of_its_categories_is_refused() -> None:
    """Codes where the schema has words all became `*`, and a model predicted them."""
    with pytest.raises(
        ValueError, match=r"kind holds none of .*'elective'.*'1' in row"
    ):
        _with_others("1")
    assert _with_others("urgent").train_inputs.shape[1] == 3
    assert _with_others("").train_inputs.shape[1] == 3  # blank cells are others


def test_cells_of_no_stated_category_are_counted(tmp_path: pathlib.Path) -> None:
    kinds = SchemaColumn("category", values=("elective", "urgent", "*"))
    schema = Schema(label="died", classes=("no", "yes"), columns={"kind": kinds})
    path = tmp_path / "new.csv"
    path.write_text("kind\nurgent\nURGENT\n\nElective\n")
    encoded, _ = table.load_rows(path, schema)
    assert list(encoded.beyond) == ["kind"]
    assert encoded.beyond["kind"].tolist() == [1, 2]
