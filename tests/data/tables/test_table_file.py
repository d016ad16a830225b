"""Workbooks and files of statistics programs: one row says nothing of the others."""

import dataclasses
import datetime
import pathlib
from typing import Any

import numpy as np
import pytest

from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import cells, draft, table, table_file
from fedsvp_jax.data.tables.schema import from_toml

pytestmark = pytest.mark.hole
SCHEMA = """schema = 1
decimal = ","
thousands = "."
[label]
column = "ill"
classes = ["no", "yes"]
[columns.dose]
"""
ROWS = 24
DAY = datetime.datetime(2024, 1, 5)


def read(path: pathlib.Path, column: str) -> np.ndarray:
    """The first training row, of a schema whose one feature is so declared."""
    schema = path.with_name("schema.toml")
    schema.write_text(SCHEMA + column)
    settings = TableSettings(schema=str(schema))
    return table.load_file(path, settings).train_inputs[0]


@pytest.mark.parametrize("last", [5.5, None, "NA"])
def test_a_cell_without_a_number_multiplies_no_other_by_1000(
    tmp_path: pathlib.Path, last: Any
) -> None:
    """One blank made texts of a workbook's numbers, and 1.234 was read as 1234."""
    openpyxl = pytest.importorskip("openpyxl")
    book, path = openpyxl.Workbook(), tmp_path / "a.xlsx"
    cases = [(1.234 + row, ["no", "yes"][row % 2]) for row in range(ROWS)]
    for row in [("dose", "ill"), *cases, (last, "yes")]:
        book.active.append(row)
    book.save(path)
    column = 'type = "number"\nbounds = [0, 10000]\nfill = 0\n'
    (dose,) = (read(path, column) + 1) * 5000
    assert dose == pytest.approx(1.234, abs=1e-3)


@pytest.mark.parametrize("stated", ['","\nthousands = "."', '","', '"."'])
def test_texts_beside_a_sheets_numbers_are_read_by_the_decimal_mark(
    stated: str,
) -> None:
    """German Excel shows 0.9 as 0,9; beside the text 0,9 the number was blamed."""
    typed = [0.9, 1.234, -2.5, 3, 1.5e-7] * 4
    cases = {"dose": [*typed, *["0,9", "1,25"] * 2], "ill": ["no", "yes"] * 12}
    text = SCHEMA.replace('","\nthousands = "."', stated)
    schema = from_toml(text + 'type = "number"\nbounds = [-10, 10]\n', "s")
    data = table.from_table(cases, schema=schema)
    values = 10 * np.concatenate([data.train_inputs, data.test_inputs])[:, 0]
    expected = [*typed, 0.9, 1.25, 0.9, 1.25]
    assert np.sort(values) == pytest.approx(np.sort(expected), abs=1e-5)
    drafted = draft.proposed(cases, label="ill", client=None, source="a").schema
    assert drafted.decimal == "," and drafted.columns["dose"].bounds == (-2.5, 3)
    with pytest.raises(
        ValueError, match=r"decimal mark other .*'0,9' in row 21.* of 4"
    ):
        table.from_table(cases, label="ill")
    points = {"dose": [*typed, *["0.9", "1.25"] * 2], "ill": cases["ill"]}
    assert draft.proposed(points, label="ill", client=None, source="a").schema == (
        dataclasses.replace(drafted, decimal=".")
    )


def test_a_code_of_three_decimals_is_the_same_beside_a_text() -> None:
    codes, beside = (
        cells.as_codes(cells.column_of(values, "s")).to_pylist()[:2]
        for values in ([250.123, 250.5, 2.0], [250.123, 250.5, "V22"])
    )
    assert codes == beside == ["250.123", "250.5"]


@pytest.mark.parametrize(
    ("column", "first"),
    [
        ('type = "number"\nbounds = [0, 10]\nmissing = ["no pain"]\nfill = 5\n', [-1]),
        ('type = "category"\nvalues = ["no pain", "worst", "*"]\n', [1, 0, 0]),
        ('type = "category"\nvalues = ["0", "2", "3"]\n', [1, 0, 0]),
    ],
)
def test_a_schema_says_which_labels_stand_and_no_row_does(
    tmp_path: pathlib.Path, column: str, first: list[int]
) -> None:
    """A row of 1 beside rows of 2 and 3 made "no pain" of all others the code 0."""
    pyreadstat, pandas = map(pytest.importorskip, ("pyreadstat", "pandas"))
    for last in (1.0, 2.0):
        doses = [0.0, 2.0, 3.0] * (ROWS // 3)
        frame = pandas.DataFrame({"dose": doses, "ill": [1.0, 2.0] * (ROWS // 2)})
        frame.loc[ROWS - 2, "dose"] = last if '"3"' not in column else 2.0
        path = tmp_path / f"{last:g}.sav"
        labels = {"dose": {0: "no pain", 10: "worst"}, "ill": {1: "no", 2: "yes"}}
        pyreadstat.write_sav(frame, path, variable_value_labels=labels)
        assert read(path, column).tolist() == first


@pytest.mark.parametrize("beside", ["x", True, datetime.time(9), 7, 0.25, DAY])
def test_one_cell_of_another_type_changes_no_text_of_the_others(beside: Any) -> None:
    """Beside a text, 2024-01-05 was "2024-01-05 00:00:00", and .00001 was 1e-05."""
    times, missing = [datetime.time(8, 30), datetime.time(9)], [None, float("nan")]
    for values in ([DAY, DAY], [1e-5, 2.5], [1e16, 2.0], [True, False], times, missing):
        alone, mixed = (
            cells.texts(cells.column_of(cells_, "s")).to_pylist()[:2]
            for cells_ in (values, [*values, beside, "text"])
        )
        assert alone == mixed
    large = [2**70, "x"]
    assert cells.column_of(large, "s").to_pylist() == [f"{2**70}", "x"]


@pytest.mark.parametrize(
    ("rows", "second", "message"),
    [
        ([("Deaths", "", ""), ("age", "sex", "y"), (1, "f", 0)], False, "column 2, 3;"),
        ([("age", "y"), (1, 0)], True, r"2 sheets hold a table: Sheet, more; leave"),
    ],
)
def test_what_a_sheet_holds_is_refused_without_a_word_of_endings(
    rows: list[Any], second: bool, message: str, tmp_path: pathlib.Path
) -> None:
    """A line of a title was refused with "its ending must be that of its format"."""
    openpyxl = pytest.importorskip("openpyxl")
    book, path = openpyxl.Workbook(), tmp_path / "a.xlsx"
    for sheet in [book.active, *([book.create_sheet("more")] if second else [])]:
        for row in rows:
            sheet.append(row)
    book.save(path)
    with pytest.raises(ValueError, match=message) as error:
        table_file.read_table(path)
    assert "ending" not in str(error.value)
    assert second or "delete line 1, if it is a title" in str(error.value)
    path.write_bytes(b"age,y\n1,0\n")
    with pytest.raises(ValueError, match=r"its ending must be that of its format"):
        table_file.read_table(path)
