"""Tables as hospitals send them: read rightly by a draft, or refused in a sentence."""

import pathlib
from collections.abc import Callable

import openpyxl
import pytest

from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import csv_file, draft, schema, table_file
from fedsvp_jax.data.tables.table import load_file

pytestmark = pytest.mark.filterwarnings("ignore:.*Windows-1252")
ROWS = 30
NAMES = ("id", "hospital", "age", "sex", "creatinine", "admitted", "death")
KINDS = {"id": "drop", "age": "number", "sex": "category"}
KINDS |= {"creatinine": "number", "admitted": "date"}
Change = Callable[[int, str], str]


def text(divider: str = ",", quote: str = "", end: str = "\n", **change: Change) -> str:
    """Thirty patients in three hospitals; some columns changed by row and value."""
    lines = [divider.join(NAMES)]
    for n in range(ROWS):
        values = (
            f"p{n:03}",
            ("Zürich", "Bern", "Genf")[n % 3],
            str(30 + n // 2),
            "fm"[n % 2],
            f"{0.5 + n / 10:.1f}",
            f"2020-01-{1 + n % 28:02}",
            ("no", "yes")[n % 2],
        )
        row = dict(zip(NAMES, values, strict=True))
        cells = (change.get(name, _kept)(n, cell) for name, cell in row.items())
        lines.append(divider.join(f"{quote}{cell}{quote}" for cell in cells))
    return end.join(lines) + end


def _kept(_: int, cell: str) -> str:
    return cell


def every_fifth(mark: str) -> Change:
    return lambda n, cell: mark if n % 5 == 0 else cell


PLAIN = text()
READ: dict[str, str | bytes] = {
    "as it should be": PLAIN,
    "a byte order mark": "\ufeff" + PLAIN,
    "lines of Windows": text(end="\r\n"),
    "lines of an old Mac": text(end="\r"),
    "semicolons and decimal commas": text(
        ";", creatinine=lambda n, cell: cell.replace(".", ",")
    ),
    "tabs": text("\t"),
    "bars": text("|"),
    "Latin-1": PLAIN.encode("latin-1"),
    "UTF-16": PLAIN.encode("utf-16"),
    "Excel's line sep=": "sep=;\n" + text(";"),
    "empty lines": PLAIN.replace("\n", "\n\n"),
    "quotes around all": text(quote='"'),
    "blanks around cells": text(" , "),
    "NA for a number": text(creatinine=every_fifth("NA")),
    "a blank for a number": text(creatinine=every_fifth("")),
    "a limit of detection": text(creatinine=lambda n, c: "<0.5" if n < 3 else c),
    "dates with points": text(admitted=lambda n, _: f"{1 + n % 28}.1.2020"),
    "dates with times": text(admitted=lambda n, cell: f"{cell} 08:15:00"),
    "a divider in quotes": text(hospital=lambda n, cell: f'"{cell}, Nord"'),
    "thousands": text(";", creatinine=lambda n, _: f"{n + 1}.000,5"),
}
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "one decimal comma among points": (
        text(creatinine=lambda n, cell: '"1,2"' if n == 3 else cell),
        r"commas in creatinine \('1,2' in row 4.*points in creatinine .* one way",
    ),
    "a title above the header": (
        "Export 2020\n" + PLAIN,
        r"line 2, has 7 values; the header names 1 in line 1; 30 more lines",
    ),
    "a row of totals": (
        PLAIN + "total,,45,,1.2,,\n",
        r"column death lacks a label \('' in row 31.*leave such rows out",
    ),
    "one outcome": (text(death=lambda n, _: "no"), "1 different values; labels are 2"),
    "a workbook": (b"PK\x03\x04" + bytes(range(256)), "or export it as CSV"),
    "NUL bytes": (PLAIN.replace("Bern", "Be\0rn", 1), "holds NUL bytes"),
}


def drafted(content: str | bytes, folder: pathlib.Path) -> draft.Draft:
    path = folder / "a.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    columns, form = csv_file.read(path, None)
    label, client = draft.guessed(columns).values()
    assert label is not None
    return draft.proposed(
        columns, label=label, client=client, source="a.csv", form=form
    )


@pytest.mark.parametrize("name", list(READ))
def test_a_table_is_read_as_its_hospital_meant_it(
    name: str, tmp_path: pathlib.Path
) -> None:
    found, _ = drafted(READ[name], tmp_path)
    kinds = {key: column.type for key, column in found.columns.items()}
    assert kinds == KINDS
    assert (found.label, found.client) == ("death", "hospital")
    told = tmp_path / "schema.toml"
    told.write_text(schema.to_toml(found, {}, "drafted"))
    data = load_file(tmp_path / "a.csv", TableSettings(schema=str(told)))
    assert data.class_names == ("no", "yes") and data.train_writers is not None
    assert len(data.train_labels) + len(data.test_labels) == ROWS
    assert len(set(data.train_writers.tolist())) == 3
    bounds = found.columns["creatinine"].bounds
    low = 1000.5 if name == "thousands" else 0.5
    low += 0.1 if name.endswith("for a number") else 0.0
    high = 30000.5 if name == "thousands" else 3.4
    assert bounds == pytest.approx((low, high))


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_table_that_nobody_can_read_is_refused_with_its_remedy(
    name: str, tmp_path: pathlib.Path
) -> None:
    content, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        found, _ = drafted(content, tmp_path)
        (tmp_path / "schema.toml").write_text(schema.to_toml(found, {}, ""))
        told = TableSettings(schema=str(tmp_path / "schema.toml"))
        load_file(tmp_path / "a.csv", told)


@pytest.mark.parametrize("cell", ["{} mg/dl", "1'{}"])
def test_a_number_with_a_unit_is_left_out_with_a_word(
    cell: str, tmp_path: pathlib.Path
) -> None:
    content = text(creatinine=lambda n, value: cell.format(value))
    found, notes = drafted(content, tmp_path)
    assert found.columns["creatinine"].type == "drop"
    assert "a number? write it plainly" in notes["columns.creatinine"]


@pytest.mark.parametrize("hidden", ["row", "column", "sheet", "", "what is unused"])
def test_a_sheet_that_hides_some_of_its_cells_is_refused(
    hidden: str, tmp_path: pathlib.Path
) -> None:
    """Rows that a filter hides were training rows without a word."""
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (("age", "dose", "death"), *((30 + n, n, n % 2) for n in range(ROWS))):
        sheet.append(row)
    sheet.row_dimensions[7].hidden = hidden == "row"
    sheet.column_dimensions["B"].hidden = hidden == "column"
    if hidden == "what is unused":
        sheet.column_dimensions.group("E", "XFD", hidden=True)
        book.create_sheet("empty").sheet_state = "hidden"
    if hidden == "sheet":
        sheet.sheet_state = "hidden"
        book.create_sheet("front")
        book.active = 1
    book.save(tmp_path / "a.xlsx")
    if hidden in ("row", "column", "sheet"):
        with pytest.raises(ValueError, match="sheet Sheet is hidden, or hides rows"):
            table_file.read_table(tmp_path / "a.xlsx")
    else:
        columns, _ = table_file.read_table(tmp_path / "a.xlsx")
        assert [*map(len, columns.values())] == [ROWS] * 3
