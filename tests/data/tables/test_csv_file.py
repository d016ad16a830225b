"""A CSV file is read as it was meant, or refused in a sentence."""

import csv
import io
import os
import pathlib
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import csv_file, draft, literals, table_file
from fedsvp_jax.data.tables.schema import from_toml
from fedsvp_jax.data.tables.table import load_file, load_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*Windows-1252")
ROWS = 20
NUMBERS = [f"{n}.5" for n in range(ROWS)]
LABELS = ["no", "yes"] * (ROWS // 2)


def table_of(**columns: list[str]) -> str:
    """A file with the columns x and y, and those that are given."""
    whole = {"x": NUMBERS, "y": LABELS} | columns
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(whole)
    writer.writerows(zip(*whole.values(), strict=True))
    return out.getvalue()


def with_one(values: list[str], *others: str) -> list[str]:
    """The values, the last ones of which are the others."""
    return [*values[: -len(others)], *others]


@pytest.mark.hole
def test_a_refusal_names_the_file(tmp_path: pathlib.Path) -> None:
    """It named "csv", as if that were the file."""
    path = tmp_path / "stays.csv"
    path.write_text(table_of())
    with pytest.raises(
        ValueError, match=r"stays\.csv lacks the column death; it has x, y"
    ):
        load_file(path, TableSettings(label_column="death"))
    with pytest.raises(ValueError, match=r"stays\.csv needs label_column, one of x, y"):
        load_file(path, TableSettings())
    assert load_file(path, TableSettings(label_column="y")).name == "csv"


def load(path: pathlib.Path, content: str | bytes, **told: str):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_file(path, TableSettings(label_column="y", **told))


SPLIT = ["train"] * 15 + ["test"] * 5
REFUSED = {
    "a split in capitals": (
        table_of(split=[one.title() for one in SPLIT]),
        "column split holds 'Test'; .* must say train or test",
    ),
    "a split with validation": (
        table_of(split=with_one(SPLIT, "valid")),
        "column split holds 'valid'",
    ),
    "a split of one part": (table_of(split=["train"] * ROWS), "both must occur"),
    "Split": (table_of(Split=SPLIT), "column Split .*--drop_columns=Split"),
    "a blank label": (table_of(y=with_one(LABELS, "")), "lacks a label .'' in row 20"),
    "a missing label": (table_of(y=with_one(LABELS, "NA")), "lacks a label .'NA'"),
    "fractions as labels": (table_of(y=NUMBERS), "numbers that are no classes"),
    "NA among numbers": (
        table_of(x=with_one(NUMBERS, "NA", "n/a")),
        r"column x lacks a finite number \('NA' in row 19, or 20 .*first of 2.*fill it "
        r"in, or state in the schema.*below \[columns.x\]: fill = …; or leave",
    ),
    "infinity": (table_of(x=with_one(NUMBERS, "inf")), "lacks a finite number .'inf'"),
    "beyond float64": (table_of(x=with_one(NUMBERS, "1e999")), "number .'1e999'"),
    "decimal commas": (
        table_of(x=[n.replace(".", ",") for n in NUMBERS]),
        "decimal mark other.*'0,5' in row 1, or 2 with the header, the first of 20",
    ),
    "a text among numbers": (
        table_of(x=with_one(NUMBERS, "old")),
        "numbers and texts .'old' in row 20.*[(]`fedsvp schema` drafts one[)], below "
        r"\[columns.x\]: missing = \['old'\] if it means a missing number, or type",
    ),
    "underscores": (table_of(x=with_one(NUMBERS, "1_000")), "numbers and texts .'1_0"),
    "a blank text": (
        table_of(t=with_one(LABELS, "")),
        r"column t lacks a text .*in a schema .* with \* for all others",
    ),
    "a blank client": (
        table_of(who=with_one(LABELS, "")),
        "names no client .'' in row 20",
    ),
    "a label that turns the line": (
        table_of(y=with_one(LABELS, "\u202eon")),
        "column y holds a control character",
    ),
    "a nameless column": (
        table_of(x=LABELS).replace("x,y", ",y"),
        "line 1: no name stands above column 1; name each, or delete it",
    ),
    "row names behind": (
        table_of(z=[str(n) for n in range(ROWS)]).replace("x,y,z", "x,y,"),
        "line 1: no name stands above column 3; name each, or delete it",
    ),
    "a name twice": (table_of().replace("x,y", "y,y"), "2 columns have the name 'y'"),
    "dates": (
        table_of(d=["2024-01-31"] * ROWS),
        "holds dates .*in the schema.*: type = .date",
    ),
    "a title with dividers": (
        "Deaths;;;\nage;sex;y;z\n1;2;3;4\n",
        r"a.csv, line 1: no name stands above column 2, 3, 4; name [^;]* if it is a "
        "title: the first line must name the columns$",
    ),
    "a title without dividers": (
        "Deaths 2024\nage;y\n1,5;2\n",
        r"line 2, has 2 values; the header names 1 in line 1; .*\(delete lines above",
    ),
    "a header with two faults and a short line": (
        "x,,x\n1,2\n",
        "above column 2;.*2 columns have the name 'x'.*line 2, has 2 values",
    ),
    "Windows bytes that mean nothing": (
        table_of().encode() + b"1,\x81\n",
        "has the byte 0x81, which is not utf-8 or cp1252",
    ),
    "nothing": ("", "is empty; the first line must name the columns"),
    "an empty first line": ("\na,b\n1,2\n", "line 1, is empty; the first line must"),
    "a header alone": ("x,y\n", "has no rows"),
    "a short line": (
        table_of() + "1\n2\n",
        "line 22, has 1 values; .*another number, too",
    ),
    "a file that was cut off": (
        table_of() + "1",
        "line 22, has 1 values; the header names 2 in line 1: is the file cut off in",
    ),
    "a short line before others": (
        table_of().replace("\n", "\n1\n", 1) + "\n",
        r"line 2, has 1 values; the header names 2 in line 1 \(delete lines",
    ),
    "a long last line": (
        table_of() + "1,no,2",
        r"line 22, has 3 values; the header names 2 in line 1 \(delete lines",
    ),
    "an open quote": (table_of() + '1,"no\n', "line 22, .*opens a quote that no later"),
    "a long text among numbers": (
        table_of(x=with_one(NUMBERS, "z" * 1000)),
        "texts .'z{40}…' in row 20",
    ),
}


def test_a_table_beyond_the_memory_names_size_limit_and_remedy(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system killed the process, or --resume and --batch_size were named."""
    path = tmp_path / "a.csv"
    path.write_text(table_of())
    memory = {"SC_PHYS_PAGES": path.stat().st_size, "SC_PAGE_SIZE": 1}
    monkeypatch.setattr(os, "sysconf", lambda name: 2 * memory[name])
    assert len(table_file.read_table(path)[0]) == 2
    monkeypatch.setattr(os, "sysconf", memory.get)
    size = r"[0-9.e-]+ GB, which take 2 times .* this machine has [0-9.e-]+ GB; leave "
    with pytest.raises(ValueError, match=f"a.csv has {size}columns"):
        table_file.read_table(path)


def test_a_record_beyond_a_block_names_line_size_limit_and_remedy(
    tmp_path: pathlib.Path,
) -> None:
    """It was "straddling object straddles two block boundaries"."""
    content = table_of() + f'1,"{"x" * 9_000_000}"\n'
    with pytest.raises(ValueError, match=r"line 22, has 9.0 mill.*4 MB .*; shorten it"):
        load(tmp_path / "a.csv", content)


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_could_be_meant_in_two_ways_is_refused(
    name: str, tmp_path: pathlib.Path
) -> None:
    content, message = REFUSED[name]
    told = {"client_column": "who"} if name == "a blank client" else {}
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "a.csv", content, **told)


def test_all_columns_that_are_wrong_are_named_at_once(tmp_path: pathlib.Path) -> None:
    content = table_of(
        x=with_one(NUMBERS, "NA"), t=with_one(LABELS, ""), y=with_one(LABELS, "")
    )
    with pytest.raises(ValueError, match=r"column y .*; .*column t .*; .*column x "):
        load(tmp_path / "a.csv", content)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["01", "1"], ("01", "1")),
        (["10", "9", "-1"], ("-1", "9", "10")),
        ([str(2**53), str(2**53 + 1)], (str(2**53), str(2**53 + 1))),
        (["1e19", "3e19"], ("1e19", "3e19")),
        (["1", "one"], ("1", "one")),
        (["none", "mild"], ("mild", "none")),
        (["=1+1", "b"], ("=1+1", "b")),
    ],
)
def test_labels_are_what_is_written(
    labels: list[str], classes: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    """01 and 1 were one class, and so were 2^53 and 2^53 + 1."""
    y = [labels[n % len(labels)] for n in range(ROWS)]
    data = load(tmp_path / "a.csv", table_of(y=y))
    assert data.class_names == classes
    assert len(data.train_labels) + len(data.test_labels) == ROWS
    if all(one.isdigit() for one in labels):
        column = load(tmp_path / "b.csv", table_of(t=y)).columns["t"]
        assert column.categories == classes


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('"x","y"\r\n' + table_of().split("\r\n", 1)[1], {}),
        (table_of(split=SPLIT), {"drop_columns": "split"}),
        (table_of(t=with_one(LABELS, "NA", "")), {"drop_columns": "t"}),
    ],
)
def test_marks_blanks_and_what_is_left_out_change_nothing(
    content: str | bytes, told: dict[str, str], tmp_path: pathlib.Path
) -> None:
    plain = load(tmp_path / "a.csv", table_of())
    assert load(tmp_path / "b.csv", content, **told).fingerprint == plain.fingerprint


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(
    rows=st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=30),
    divider=st.sampled_from(",;\t"),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_text_that_is_written_is_read(
    rows: list[tuple[str, str, str]], divider: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=divider, quoting=csv.QUOTE_ALL)
        writer.writerows([("a", "b", "c"), *rows])
    read = csv_file.read(path)[0]
    columns = [
        [literals.normal(re.sub("[\t\r\n]+", " ", text.strip())) for text in column]
        for column in zip(*rows, strict=True)
    ]
    assert [read[name].to_pylist() for name in "abc"] == (columns or [[], [], []])


def _wide(file: io.TextIOBase, columns: int = 100_000) -> None:
    names = [f"gene {n}" for n in range(columns)]
    file.write(",".join([*names, "y"]) + "\n")
    for row in range(20):
        file.write(
            ",".join([*map(str, range(row, row + columns)), "ab"[row % 2]]) + "\n"
        )


def _long_cell(file: io.TextIOBase) -> None:
    file.write("t,x,y\n")
    for row in range(20_000):
        file.write(f"{'z' * 50_000 if row == 7 else 'n'},{row},{'ab'[row % 2]}\n")


# Prints CPU seconds, and by how many bytes the process's largest resident size grew.
_LOADED = """
import pathlib, re, sys, time
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables.table import load_file
def peak():
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1])
before, started = peak(), time.process_time()
load_file(pathlib.Path(sys.argv[1]), TableSettings(label_column="y"))
print(time.process_time() - started, peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("write", [_wide, _long_cell])
def test_time_and_memory_follow_the_size_of_the_file(
    write, tmp_path: pathlib.Path
) -> None:
    """100,000 columns took 202 s, as the square of their number; one long cell asked
    for 14.9 GiB.

    In a process of its own, whose peak no earlier test has raised: 1.42 GB for the
    columns, of 13 MB of text. Five times the columns take eight to nine times as long.
    """
    costs = []
    for name, content in (("small", partial(_wide, columns=20_000)), ("a", write)):
        path = tmp_path / f"{name}.csv"
        with path.open("w") as file:
            content(file)
        command = [sys.executable, "-c", _LOADED, str(path)]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        costs.append([float(cost) for cost in told.stdout.split()])
    (small, _), (seconds, grown) = costs
    assert seconds < 13 * small
    assert 0 < grown <= 20 * path.stat().st_size + 1.5 * 2**30


def test_latin_1_is_read_with_a_warning(tmp_path: pathlib.Path) -> None:
    content = table_of(t=["Z\xfcrich", "Gen\xe8ve"] * 10).encode("latin-1")
    with pytest.warns(UserWarning, match="read as Windows-1252"):
        data = load(tmp_path / "a.csv", content)
    assert data.columns["t"].categories == ("Gen\xe8ve", "Z\xfcrich")


@pytest.mark.parametrize("last", [10, 20])
@pytest.mark.parametrize("stated", ["", "utf-8"])
def test_a_file_that_mixes_encodings_is_refused(
    tmp_path: pathlib.Path, stated: str, last: int
) -> None:
    """For one line of 20 all others were read as ZÃ¼rich."""
    lines = table_of(t=["Zürich", "Genève"] * 10).encode().splitlines(keepends=True)
    lines[9:last] = [line.decode().encode("latin-1") for line in lines[9:last]]
    mixes = "line 10, .* not utf-8, as other lines are: the file mixes enc.*as UTF-8$"
    path = tmp_path / "a.csv"
    path.write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match=f"a.csv, {mixes}"):
        csv_file.read(path, stated or None)
    path.write_bytes(b"".join(lines).decode(errors="ignore").encode("latin-1"))
    if stated:  # what a file of DOS has is not Windows-1252 either
        with pytest.raises(ValueError, match='as UTF-8, or state encoding = "cp1252"'):
            csv_file.read(path, stated)


def test_a_file_of_utf_8_mixes_nothing_where_the_schema_states_another(
    tmp_path: pathlib.Path,
) -> None:
    """The byte 0x81 of Á was "not utf-8, as other lines are"."""
    path = tmp_path / "a.csv"
    for mark in ("", "\ufeff"):
        path.write_text(mark + table_of(t=["Ágora"] * 20))
        if mark:
            assert csv_file.read(path, "cp1252")[0]["t"][0].as_py() == "Ágora"
            return
        with pytest.raises(ValueError, match=r"not cp1252; save .* \(BOM\) as UTF-8$"):
            csv_file.read(path, "cp1252")


DECLARED = """
schema = 1
decimal = "{decimal}"
[label]
column = "y"
classes = ["no", "yes"]
[columns.x]
type = "number"
bounds = [0, 20]
fill = 10
missing = ["-9", "unbekannt"]
"""
READ = {  # a cell, by which decimal: the number that it is, or what is said of it
    ("NA", "."): 10.0,
    ("", "."): 10.0,
    ("-9", "."): 10.0,
    ("unbekannt", ","): 10.0,
    ("99", "."): 20.0,
    ("1,5", ","): 1.5,
    ("1.234,5", ","): 20.0,
    ("1,234.5", "."): 20.0,
    ("+.5e1", "."): 5.0,
    ("1,5", "."): 1.5,  # no other cell has a fraction
    ("1.5", ","): 1.5,
    ("1,234", "."): "'1,234' in row 20.* = ... and thousands = .,. or decimal = ",
    ("1.234", ","): "'1.234' in row 20.* top: decimal = .,. and thousands = ...$",
    ("<5", "."): "behind < or > .'<5' in row 20.*columns.x.: limits = true, which",
    ("<5 mg", "."): "numbers and texts .'<5 mg' in row 20",
    ("5 mg", "."): "numbers and texts .'5 mg' in row 20",
    ("31.12.2020", "."): "holds dates",
}


@pytest.mark.parametrize(("cell", "decimal"), list(READ))
def test_a_number_is_what_its_schema_says(
    cell: str, decimal: str, tmp_path: pathlib.Path
) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text(DECLARED.format(decimal=decimal))
    content = table_of(x=with_one(["7"] * ROWS, cell), split=SPLIT)
    expected = READ[cell, decimal]
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            load(tmp_path / "a.csv", content, schema=str(schema))
        return
    data = load(tmp_path / "a.csv", content, schema=str(schema))
    assert data.from_records == ()
    assert data.test_inputs[-1, 0] == pytest.approx(expected / 10 - 1)


@pytest.mark.hole
@pytest.mark.parametrize("mark", literals.DECIMALS)
def test_a_result_beyond_a_limit_is_the_limit_where_the_schema_says_so(
    mark: str, tmp_path: pathlib.Path
) -> None:
    schema, file = tmp_path / "schema.toml", tmp_path / "a.csv"
    schema.write_text(DECLARED.format(decimal=".") + "limits = true\n")
    halves = [f"{n}{mark}5" for n in range(ROWS)]
    plain = load(file, table_of(x=halves, split=SPLIT), schema=str(schema))
    rows, _ = load_rows(file, from_toml(schema.read_text(), "s"))
    signed = [
        sign + cell
        for sign, cell in zip(["<", "> ", "≤", ">=", ""] * 4, halves, strict=True)
    ][:-1] + halves[-1:]  # a fraction that shows the decimal mark
    content = table_of(x=signed, split=SPLIT)
    assert load(file, content, schema=str(schema)).fingerprint == plain.fingerprint
    predicted, _ = load_rows(file, from_toml(schema.read_text(), "s"))
    np.testing.assert_array_equal(predicted.inputs, rows.inputs)
    for cell in ("<", "<<5", "<5 mg", "< NA", "<inf"):
        with pytest.raises(ValueError, match=f"numbers and texts .'{cell}' in row 20"):
            load(file, table_of(x=with_one(halves, cell)), schema=str(schema))


@pytest.mark.hole
@pytest.mark.parametrize(("decimal", "mark"), [(".", ","), (",", "."), (".", ".")])
def test_a_file_may_have_the_other_decimal_mark_alone(
    decimal: str, mark: str, tmp_path: pathlib.Path
) -> None:
    """A clinic cannot alter the schema, and its commas were refused."""
    schema, file = tmp_path / "schema.toml", tmp_path / "a.csv"
    schema.write_text(DECLARED.format(decimal=decimal))
    halves = [f"{n}{mark}5" for n in range(ROWS)]
    loaded = load(file, table_of(x=halves, split=SPLIT), schema=str(schema))
    inputs = np.concatenate([loaded.train_inputs, loaded.test_inputs])[:, 0]
    np.testing.assert_allclose(inputs, (np.arange(ROWS) + 0.5) / 10 - 1, atol=1e-6)
    other = "," if mark == "." else "."
    for cell, message in {
        f"2{other}5": "decimal mark other than expected",
        f"1{other}250": "between thousands",  # 1250 of who writes 0,5
    }.items():
        content = table_of(x=with_one(halves, cell), split=SPLIT)
        with pytest.raises(ValueError, match=message):
            load(file, content, schema=str(schema))


@pytest.mark.hole
@pytest.mark.parametrize("listed", ["-9.0", "-9,0"])
def test_no_row_decides_whether_anothers_mark_is_missing(
    listed: str, tmp_path: pathlib.Path
) -> None:
    """One 1.5 for 1,5 made a number of each -9, or filled it, and ε was proved."""
    schema, file = tmp_path / "schema.toml", tmp_path / "a.csv"
    schema.write_text(DECLARED.format(decimal=",").replace('"-9"', f'"{listed}"'))
    rows = ["-9"] * (ROWS // 2) + ["4"] * (ROWS - ROWS // 2)
    read = [
        load(file, table_of(x=with_one(rows, cell), split=SPLIT), schema=str(schema))
        for cell in ("1,5", "1.5")
    ]
    missing = [data.changed_cells["x"]["missing"].sum() for data in read]
    assert missing == [rows.count("-9")] * 2
    np.testing.assert_array_equal(read[0].train_inputs, read[1].train_inputs)


def with_row_names(header: str, name: str) -> str:
    """The table as R's write.csv and pandas' to_csv write it."""
    first, *lines = table_of().splitlines()
    return "\n".join(
        [f"{header},{first}", *(name.format(n) + f",{x}" for n, x in enumerate(lines))]
    )


@pytest.mark.hole
@pytest.mark.parametrize(("header", "name"), [('""', '"{}"'), ("", "{}"), ("", "p{}")])
def test_a_first_column_without_a_name_is_row_names(
    header: str, name: str, tmp_path: pathlib.Path
) -> None:
    """It was refused: "column 1 has no name"."""
    path = tmp_path / "a.csv"
    data = load(path, with_row_names(header, name))
    assert data.train_inputs.shape[1] == 1
    assert data.fingerprint == load(tmp_path / "plain.csv", table_of()).fingerprint
    columns, form = csv_file.read(path)
    drafted, notes = draft.proposed(
        columns, label="y", client=None, source="a.csv", form=form
    )
    # Every command warned of it anew.
    assert notes["row names"] == "the first column, which has no name, is no feature"
    assert list(drafted.columns) == ["x"]
    _, carried = load_rows(path, drafted)
    assert carried[""].to_pylist() == [name.strip('"').format(n) for n in range(ROWS)]
    (tmp_path / "plain.csv").write_text(table_of(x=NUMBERS[1:] + NUMBERS[:1]))
    plain = TableSettings(label_column="y", test_data=str(tmp_path / "plain.csv"))
    assert load_file(path, plain).train_inputs.shape == (ROWS, 1)


def test_columns_may_be_numbered(tmp_path: pathlib.Path) -> None:
    """As pandas writes a frame of an array; fractions in their place are values."""
    content = table_of().replace("x,y", "0,1")
    (tmp_path / "a.csv").write_text(content)
    columns, _ = csv_file.read(tmp_path / "a.csv")
    assert list(columns) == ["0", "1"]
