"""What a draft asks of cells is asked where a schema is given, too."""

import csv
import pathlib
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from fedsvp_jax.data.tables import literals, row_questions, table_file
from fedsvp_jax.data.tables.schema import OTHERS, Schema, SchemaColumn
from fedsvp_jax.data.tables.table import from_table, load_rows

ROWS = 450
CLIENTS = np.array(["North", "South", "West"])[np.arange(ROWS) % 3]
WEST = CLIENTS == "West"
EVERY = np.arange(ROWS) % 23 == 0
SCHEMA = Schema(
    {
        "age": SchemaColumn("number", (18, 110), fill=50),
        "weight": SchemaColumn("number", (0, 250)),
        "admitted": SchemaColumn("date", (18_000, 20_000)),
        "smokes": SchemaColumn("number", (0, 1)),
        "asthma": SchemaColumn("category", values=("no", "yes", OTHERS)),
    },
    "died",
    ("no", "yes"),
    client="hospital",
)
Table = dict[str, np.ndarray]


def clean() -> Table:
    draws = np.random.default_rng(3)
    days = np.datetime64("2021-01-01") + draws.integers(0, 900, ROWS)
    return {
        "age": draws.integers(25, 80, ROWS),
        "weight": np.exp(draws.normal(4.25, 0.17, ROWS)).round(1),
        "admitted": days.astype(str),
        "smokes": (draws.random(ROWS) < 0.9).astype(int),
        "asthma": np.where(draws.random(ROWS) < 0.05, "yes", "no"),
        "hospital": CLIENTS,
        "died": np.where(draws.random(ROWS) < 0.3, "yes", "no"),
    }


FAULTS: list[tuple[str, Callable[[np.ndarray], np.ndarray], str]] = [
    ("age", lambda x: np.where(EVERY, 99, x), "age: 99: a missing number?"),
    (
        "admitted",
        lambda x: np.where(EVERY, "9999-12-31", x),
        "admitted: 9999-12-31: a missing date?",
    ),
    (
        "weight",
        lambda x: np.where(np.arange(ROWS) % 2, x * 2.2046, x).round(1),
        "weight: values near .* and near .*: two units?",
    ),
    (
        "weight",
        lambda x: np.where(WEST, x * 2.2046, x).round(1),
        "weight: median .* at client West, .* elsewhere: another unit?",
    ),
    (
        "weight",  # grams per litre and mmol per litre of haemoglobin are as near
        lambda x: np.where(WEST, x * 1.61, x).round(1),
        "weight: median .* at client West, .* elsewhere: another unit?",
    ),
    (
        "asthma",
        lambda x: np.where(WEST, np.where(x == "yes", "no", "yes"), x),
        "asthma: 'no' in .* % of the cells of client West, .* the other way round",
    ),
    (
        "smokes",
        lambda x: np.where(WEST, 1 - x, x),
        "smokes: '0' in .* % of the cells of client West, .* the other way round",
    ),
    (
        "hospital",
        lambda x: np.where(WEST & EVERY, "WEST", x),
        "hospital: 'WEST', 'West' differ in capitals or blanks alone: write them",
    ),
    (
        "hospital",
        lambda x: np.where(EVERY, np.where(WEST, "St.Gallen", "St. Gallen"), x),
        "hospital: 'St. Gallen', 'St.Gallen' differ in capitals or blanks alone",
    ),
    (
        "hospital",
        lambda x: np.where(WEST, "ZÃ¼rich", x),
        "hospital: was 'ZÃ¼rich' read in a wrong encoding",
    ),
    (
        "asthma",
        lambda x: np.where((x == "no") & EVERY, " No", x),
        "asthma: 'No', 'no' differ in capitals",
    ),
]


@pytest.mark.parametrize(("name", "wrong", "words"), FAULTS)
def test_training_and_predicting_ask_what_a_draft_asks(
    name: str,
    wrong: Callable[[np.ndarray], np.ndarray],
    words: str,
    tmp_path: pathlib.Path,
) -> None:
    """With a schema from a codebook, for which nobody drafts, all was silent."""
    table = clean()
    table[name] = wrong(table[name])
    with pytest.warns(UserWarning, match=f"column {words}.*keep it to yourself"):
        data = from_table(table, schema=SCHEMA)
    assert sum(f"column {name}: " in notice for notice in data.notices) == 1
    path = tmp_path / "new.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([table, *zip(*table.values(), strict=True)])
    with pytest.warns(UserWarning, match=f"column {words}") as warned:
        load_rows(path, SCHEMA)
    # The schema is the model's: nobody can state a mark in it any more.
    assert not any("state it in missing" in str(each.message) for each in warned)


@pytest.mark.parametrize(("name", "wrong", "words"), FAULTS[:3])
def test_a_hospital_alone_is_asked_too(
    name: str, wrong: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    """`site join` reads a table without a column of clients."""
    table = clean()
    table[name] = wrong(table[name])
    with pytest.warns(UserWarning, match=f"column {words}"):
        from_table(table, schema=SCHEMA, client="none")


def test_a_clean_table_and_what_the_schema_answers_are_not_asked_of() -> None:
    """A stated code, a stated lower bound, and a client that has one value alone."""
    table = clean()
    table["age"] = np.where(EVERY, 99, table["age"])
    table["weight"][EVERY] = 0
    table["smokes"][WEST] = 0
    stated = SchemaColumn("number", (18, 110), fill=50, missing=("99",))
    schema = Schema({**SCHEMA.columns, "age": stated}, "died", ("no", "yes"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_table(clean(), schema=SCHEMA)
        from_table(table, schema=schema, client="hospital")


@pytest.mark.parametrize(
    ("factor", "mark", "unit"), [(88.4, 88.4, True), (1, 999, False), (1, -9, False)]
)
def test_true_bounds_hide_no_second_unit(
    factor: float, mark: float, unit: bool
) -> None:
    """4 % of creatinine in µmol/l were "clamped"; by wide bounds, in two units."""
    table, draws = clean(), np.random.default_rng(0)
    values = np.exp(draws.normal(0, 0.2, ROWS)).round(2)
    table["weight"] = np.where(EVERY, (values * factor).round(1), values)
    table["weight"][::46] = mark
    for bounds in ((0.3, 12), (0, 2000)):
        weight = SchemaColumn("number", bounds)
        schema = Schema({"weight": weight}, "died", ("no", "yes"))
        columns = table_file.columns_of(table, "a")
        questions = [q for _, q in row_questions.questions(schema, columns, None) if q]
        assert ("two units?" in " ".join(questions)) == unit


def test_two_codes_are_of_no_unit() -> None:
    """Women, coded 2, were 48 % at a hospital: "median 1 there, 2 elsewhere"."""
    table = clean()
    table["smokes"] = np.where(np.arange(ROWS) // 3 % 25 < 12 + 2 * ~WEST, 2, 1)
    schema = Schema({"smokes": SchemaColumn("number", (1, 2))}, "died", ("no", "yes"))
    columns = table_file.columns_of(table, "a")
    asked = row_questions.questions(schema, columns, "hospital")
    assert [question for _, question in asked if question] == []


def test_a_blank_column_is_not_asked_of() -> None:
    """It has no largest share."""
    table = clean()
    table["asthma"][:] = ""
    columns = table_file.columns_of(table, "a")
    assert not any(
        text for _, text in row_questions.questions(SCHEMA, columns, "hospital")
    )


@pytest.mark.parametrize(
    "name",
    ["Zürich", "MÃ", "São Paulo", "SÃO PAULO", "Åbo–Ängelholm", "Âge", "„Ä“", "Łódź"],
)
def test_a_name_is_misread_where_utf_8_was_read_as_windows_1252(name: str) -> None:
    asked = row_questions.spellings(["A", name, "Bern"])
    assert asked == ""
    text = name.encode().decode("cp1252", errors="ignore")
    asked = row_questions.spellings(["A", literals.normal(text), "Bern"])
    assert f"was {literals.normal(text)!r} read in a wrong enc" in asked


@pytest.mark.hole
@pytest.mark.parametrize("bound", [10.0, 100_000.0])
def test_a_site_is_asked_of_points_between_thousands(bound: float) -> None:
    """A hospital's 8.130 cells per µl were read as 8.13, within bounds, silently.

    A pH of 7.312 is none of them: its bounds hold no thousands.
    """
    rng = np.random.default_rng(0)
    table = {
        "leuco": [f"{n // 1000}.{n % 1000:03}" for n in rng.integers(4000, 9999, 60)],
        "died": ["no", "yes"] * 30,
    }
    column = SchemaColumn("number", (0.0, bound), from_data=False)
    schema = Schema({"leuco": column}, "died", ("no", "yes"))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        from_table(table, schema=schema, client="none")
    asked = [w for w in warned if "three digits behind its mark" in str(w.message)]
    assert len(asked) == (bound > 999)
