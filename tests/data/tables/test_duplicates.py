"""Rows that were exported twice are asked of; equal rows of few columns are not."""

import warnings

import numpy as np
import pytest

from fedsvp_jax.data.tables import draft, duplicates
from fedsvp_jax.data.tables.cells import Columns
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn, to_toml
from fedsvp_jax.data.tables.table import from_table
from fedsvp_jax.data.tables.table_file import columns_of

ROWS = 400
RNG = np.random.default_rng(3)
PATIENTS = {
    "age": RNG.integers(20, 90, ROWS),
    "weight": RNG.integers(4000, 12000, ROWS) / 100,
    "sex": RNG.integers(0, 2, ROWS),
    "died": RNG.integers(0, 2, ROWS),
}
COPIES = [0, *range(ROWS), *range(40)]  # of row 1 two


def table(rows: list[int] | range, **others: np.ndarray) -> Columns:
    return columns_of({k: v[rows] for k, v in PATIENTS.items()} | others, "a")


def asked(columns: Columns, unit: str = "row", person: str | None = None) -> str:
    (question,) = duplicates.questions(columns, unit, person) or [""]
    return question


def test_copies_are_counted_and_the_first_is_named() -> None:
    question = asked(table(COPIES))
    assert question.startswith("41 of 441 rows repeat another")
    assert "(row 2 repeats row 1)" in question and "twice the ε" in question
    assert asked(table(range(ROWS))) == ""


def test_names_of_rows_hide_no_copy() -> None:
    numbered = np.arange(len(COPIES))
    numbered_cells = table(COPIES, number=numbered)["number"]
    assert asked(table(COPIES, number=numbered))
    assert asked(Columns({"": numbered_cells, **table(COPIES)}))
    assert not asked(table(COPIES, dose=numbered + 0.5))  # measured, and none equal


def test_a_constant_column_says_nothing() -> None:
    assert asked(table(COPIES, country=np.repeat("CH", len(COPIES))))


def test_a_rare_condition_hides_no_copy() -> None:
    """60 copies in a hospital's 630 rows, of which 1 % had it, joined unasked."""
    rare = (np.array(COPIES) % 80 == 7).astype(int)
    assert "41 of 441 rows repeat another" in asked(table(COPIES, mgus=rare))
    draws = np.random.default_rng(0)
    for _ in range(20):
        few = {name: draws.integers(0, 6, ROWS) for name in "abc"}
        few["mgus"] = (draws.random(ROWS) < 0.02).astype(int)
        assert not asked(columns_of(few, "a"))


def test_rows_of_few_categories_are_equal_by_chance() -> None:
    few = {name: RNG.integers(0, 3, ROWS) for name in "abcd"}
    assert not asked(columns_of(few, "a"))
    assert not asked(columns_of({"a": few["a"]}, "a"))
    twice = {name: np.repeat(column, 2) for name, column in few.items()}
    assert asked(columns_of(twice, "a"))


@pytest.mark.parametrize("unit", ["row", "person", "client"])
def test_copies_of_one_person_matter_where_the_row_is_the_unit(unit: str) -> None:
    of_one = table(COPIES, patient=np.array(COPIES) + 1000)
    of_two = table(COPIES, patient=np.arange(len(COPIES)) // 2 * 2)
    assert bool(asked(of_one, unit, "patient")) == (unit != "person")
    assert bool(asked(of_two, "person", "patient"))


def test_the_draft_asks_of_copies_with_their_ids() -> None:
    """It took them for persons with several rows, and asked nothing."""
    notes = draft.proposed(
        table(COPIES, patient=np.array(COPIES)), label="died", client=None, source=""
    ).notes
    assert "person" in notes and "41 of 441 rows repeat another" in notes["rows"]
    visits = table([*range(ROWS)], patient=np.arange(ROWS) // 2)
    assert "rows" not in draft.proposed(visits, label="died", client=None, source="")[1]


def test_the_draft_and_the_table_ask() -> None:
    """Both were silent: one file, exported twice, trained under the ε of one row."""
    drafted, notes = draft.proposed(table(COPIES), label="died", client=None, source="")
    assert notes["rows"] == asked(table(COPIES))
    assert "exported twice?" not in to_toml(drafted, notes, "head")  # it is public
    columns = {name: SchemaColumn("number", (0, 200)) for name in ("age", "weight")}
    stated = Schema(columns | {"sex": SchemaColumn("drop")}, "died", ("0", "1"))
    for rows in (COPIES, range(ROWS)):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            from_table(table(rows), schema=stated)
        questions = [each for each in warned if "exported twice?" in str(each.message)]
        assert len(questions) == (rows is COPIES)
