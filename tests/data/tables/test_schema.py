"""What the records tell makes claims nominal; what is declared does not."""

import dataclasses
import pathlib
import re
import warnings
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import plan
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data import sources
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import draft
from fedsvp_jax.data.tables.schema import (
    Schema,
    SchemaColumn,
    as_read,
    from_toml,
    to_toml,
)
from fedsvp_jax.data.tables.table import from_table, load_file, load_rows
from fedsvp_jax.federation import build
from fedsvp_jax.report import headline

pytestmark = pytest.mark.hole
ROOT, ROWS = pathlib.Path(__file__).parents[3], 60
WAGE, TOWNS, ILL = np.arange(ROWS) % 31 + 0.5, ("a", "b", "c"), ("no", "yes")
TABLE = {
    "wage": WAGE,
    "town": np.array(TOWNS)[np.arange(ROWS) % 3],
    "ill": np.array(ILL)[np.arange(ROWS) % 2],
}
NUMBER = SchemaColumn("number", bounds=(0.0, 40.0))
TOWN = SchemaColumn("category", values=TOWNS)
DECLARED = Schema({"wage": NUMBER, "town": TOWN}, "ill", ILL)
READ_OFF = {"from_data": True}


@given(
    row=st.integers(0, ROWS - 1),
    wage=st.floats(-1e9, 1e9),
    town=st.sampled_from(TOWNS),
    ill=st.sampled_from(ILL),
)
@settings(max_examples=50, deadline=None)
def test_a_changed_record_of_a_declared_table_changes_no_other(
    row: int, wage: float, town: str, ill: str
) -> None:
    """One outlier moved the features of 799 of 800 records of an undeclared one."""
    neighbour = {key: values.copy() for key, values in TABLE.items()}
    for key, value in (("wage", wage), ("town", town), ("ill", ill)):
        neighbour[key][row] = value
    one, other = (from_table(table, schema=DECLARED) for table in (TABLE, neighbour))
    assert one.from_records == other.from_records == ()
    assert one.num_classes == other.num_classes
    same = (one.train_inputs == other.train_inputs).all(1)
    assert (~same).sum() + (one.train_labels != other.train_labels)[same].sum() <= 1


FILE = """
schema = 1
{encoding}
[label]
column = "ill"
classes = ["no", "yes"]
[columns.wage]
type = "number"
bounds = [0, 40]
fill = 0
[columns.town]
type = "category"
values = ["Zürich", "*"]
[columns.note]
type = "drop"
"""
ODD = (
    *("Orléans", "a;b;c;d", "a\tb\tc", "1,5", "1.5", "", "sep=;", '"', "NA"),
    *("two\nlines", "two\r\nlines", "\ufeffx", "31.12.2024", "wage,town,note,ill"),
)


def declared_inputs(
    folder: pathlib.Path, encoding: str, row: Mapping[str, bytes], said: str = ""
) -> Dataset:
    """A file of 20 rows, one of which holds other cells, as its schema reads it."""
    rows = [["wage", "town", "note", "ill"]]
    rows += [["1.5", ("Zürich", "x")[n % 2], "", ILL[n % 2]] for n in range(20)]
    lines = [[cell.encode(encoding) for cell in cells] for cells in rows]
    lines[8] = [row.get(name, lines[8][n]) for n, name in enumerate(rows[0])]
    quoted = [[b'"%b"' % cell.replace(b'"', b'""') for cell in one] for one in lines]
    (folder / "a.csv").write_bytes(b"\n".join(map(b",".join, quoted)))
    (folder / "s.toml").write_text(FILE.format(encoding=said), encoding="utf-8")
    return load_file(folder / "a.csv", TableSettings(schema=str(folder / "s.toml")))


@pytest.mark.parametrize("column", ["town", "note"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_cell_of_one_row_changes_how_no_other_is_read(
    column: str, encoding: str, tmp_path: pathlib.Path
) -> None:
    """One byte of Latin-1 moved all rows of Zürich into *, in a proved run."""
    said = f'encoding = "{encoding}"' if encoding == "cp1252" else ""
    plain = declared_inputs(tmp_path, encoding, {}, said)
    assert plain.train_inputs[:, 1].any() and not plain.from_records
    for cell in ODD:
        written = cell.encode(encoding, "replace")
        other = declared_inputs(tmp_path, encoding, {column: written}, said)
        differ = (plain.train_inputs != other.train_inputs).any(1).sum()
        assert differ + (plain.test_inputs != other.test_inputs).any(1).sum() <= 1
    foreign = "Orléans".encode({"utf-8": "cp1252", "cp1252": "utf-8"}[encoding])
    if encoding == "cp1252":  # any byte but five is a letter of it
        other = declared_inputs(tmp_path, encoding, {column: foreign}, said)
        assert (plain.train_inputs != other.train_inputs).any(1).sum() <= 1
        foreign = b"\x81"
    match = f"line 9, has the byte 0x{foreign.lstrip(b'Orl')[0]:02x}.* not {encoding}"
    mixes = ", as other lines are: the file mixes encodings" * (encoding == "utf-8")
    with pytest.raises(ValueError, match=f"{match}{mixes}; save .*as UTF-8$"):
        declared_inputs(tmp_path, encoding, {column: foreign}, said)
    with pytest.raises(ValueError, match=r"line [29], .* not utf-8"):
        load_rows(tmp_path / "a.csv", from_toml(FILE.format(encoding=""), "s"))
    with pytest.raises(ValueError, match="encoding must be one of utf-8, cp1252"):
        from_toml(FILE.format(encoding='encoding = "latin-1"'), "s.toml")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({}, "the classes of ill"),
        ({"town": dataclasses.replace(TOWN, **READ_OFF)}, "the categories of town"),
        ({"wage": dataclasses.replace(NUMBER, **READ_OFF)}, "the bounds of wage"),
        ({"town": SchemaColumn("drop", **READ_OFF)}, "the leaving out of town"),
    ],
)
def test_what_the_records_tell_is_listed(columns: dict, told: str) -> None:
    whole = {**DECLARED.columns, **columns}
    schema = Schema(whole, "ill", ILL, classes_from_data=not columns)
    assert from_table(TABLE, schema=schema).from_records == (told,)
    again = from_toml(to_toml(schema), "a.toml")
    assert again == schema and again.from_records == (told,)


CELLS = st.sampled_from(["", "NA", "1", "2.5", "900", "2024-12-31", "a", "b", "c", "d"])


@given(
    cells=st.lists(CELLS, min_size=24, max_size=24, unique=False),
    ids=st.booleans(),
    row=st.integers(0, 23),
    cell=CELLS,
)
@settings(max_examples=100, deadline=None)
def test_whatever_one_record_decides_of_a_draft_is_marked(
    cells: list[str], ids: bool, row: int, cell: str
) -> None:
    """A column was left out without a mark, for one cell that was not there."""
    names = [f"k{i}" for i in range(24)] if ids else cells
    table = {"a": np.array(cells), "b": np.array(names), "ill": np.array(ILL * 12)}
    other = {key: values.astype("U10") for key, values in table.items()}
    other["a"][row] = other["b"][row] = cell
    mine, theirs = (
        draft.proposed(one, label="ill", client=None, source="t").schema
        for one in (table, other)
    )
    for name in ("a", "b"):
        one, two = mine.columns[name], theirs.columns[name]
        assert one == two or (one.from_data and two.from_data)


def claim_of(data: Dataset, **changes: object) -> tuple[bool, str]:
    """Whether a run on the data claims a proved ε, and its assumptions."""
    config = ExperimentConfig(
        dataset="csv",
        partition="iid",
        mechanism="nbafl",
        clipping="update_clip",
        num_clients=3,
        cohort_size=2,
        num_hbc_clients=0,
        num_rounds=2,
        batch_size=4,
        **changes,
    )
    claim = build([resolve(config, dataset=data)], data).mechanism.basis
    return claim.proved, claim.assumptions


def test_claims_are_nominal_until_everything_is_declared() -> None:
    """They were called proved, with scales that were said to be constants."""
    proved, said = claim_of(from_table(TABLE, label="ill"))
    assert not proved
    assert "nominal, because the classes of ill, the bounds of wage" in said
    assert "schema (`fedsvp schema`) or by --classes" in said
    whole = from_table(TABLE, schema=DECLARED)
    assert claim_of(whole)[0]
    for public in (True, False):
        town = whole.columns["town"]._replace(public=public)
        data = dataclasses.replace(whole, columns={"town": town}, test_columns={})
        proved, said = claim_of(
            data, attributes="column:town", private_category="a", num_attributes=3
        )
        assert proved == public and ("the categories of town" in said) != public


def test_arrays_of_ones_own_declare_their_classes_and_categories(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "a.npz"
    np.savez(
        path,
        x_train=np.zeros((4, 2), np.float32),
        y_train=np.array([0, 1, 1, 0]),
        x_test=np.zeros((2, 2), np.float32),
        y_test=np.array([0, 2]),
        column_sex_train=np.array(["f", "m", "f", "m"]),
    )
    told = TableSettings()
    data = sources.load("npz", path, told)
    assert data.from_records == ("the number of classes",)
    assert not data.columns["sex"].public
    declared = tmp_path / "schema.toml"
    declared.write_text(
        "schema = 1\n[columns.sex]\ntype = 'category'\nvalues = ['m', 'f', 'd']"
    )
    told = dataclasses.replace(told, classes=3, schema=str(declared))
    data = sources.load("npz", path, told)
    assert data.from_records == () and data.num_classes == 3
    assert data.columns["sex"].categories == ("m", "f", "d")
    assert data.columns["sex"].public
    with pytest.raises(ValueError, match="labels must be from 0 to 1, got 2"):
        sources.load("npz", path, dataclasses.replace(told, classes=2))
    text = declared.read_text()
    for other, message in {
        text.replace(
            "'f'", "'w'"
        ): r"'f' in row 1.*the schema's values, 'm', 'w', 'd'; or",
        text.replace("sex", "sexx"): "did you mean sex",
    }.items():
        declared.write_text(other)
        with pytest.raises(ValueError, match=message):
            sources.load("npz", path, told)


def test_a_star_takes_whatever_was_not_declared() -> None:
    star = SchemaColumn("category", values=("a", "*"))
    data = from_table(TABLE, schema=Schema({"wage": NUMBER, "town": star}, "ill", ILL))
    assert data.columns["town"].categories == ("a", "*")
    assert data.train_inputs.shape[1] == 1 + 2
    of_a, of_others = [1, 0], [1, 1]  # the mean of all others, and a weight of its own
    rows = np.where(data.columns["town"].codes[:, None] == 0, of_a, of_others)
    np.testing.assert_array_equal(data.train_inputs[:, 1:], rows)
    few = SchemaColumn("category", values=("a", "c"))
    with pytest.raises(ValueError, match=r"none of its categories \('b' in row 2"):
        from_table(TABLE, schema=Schema({"wage": NUMBER, "town": few}, "ill", ILL))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("[columns.a]\ntype = 'numbr'", "column a: type must be .*did you mean number"),
        ("[columns.a]\ntype = 'number'", r"column a: bounds must be \[LOW, HIGH\]"),
        ("[columns.a]\ntype = 'number'\nbounds = [2, 1]", r"LOW, HIGH., got .2, 1."),
        ("[columns.a]\ntype = 'number'\nbounds = [1, inf]", "must be finite numbers"),
        (
            "[columns.a]\ntype = 'number'\nbounds = [1, 5]\nunits = 3",
            "units must be a text, got 3",
        ),
        (
            "[columns.a]\ntype = 'number'\nbounds = [1, 5]\nknots = [3, 5]",
            r"knots must rise between the bounds, got \[3.0, 5.0\]",
        ),
        (
            "[columns.a]\ntype = 'number'\nbounds = [1, 5]\nknots = [4.9999999]",
            "knots must rise between the bounds",
        ),
        ("[columns.a]\ntype = 'date'\nbounds = [1, 2]", "dates such as 2024-12-31"),
        ("[columns.a]\ntype = 'category'\nvalues = ['a', 'a']", "name each once"),
        ("[columns.a]\ntype = 'category'", "values must be a list of texts"),
        ("[columns.a]\ntype = 'time'\nlog = true", "a key must be one of bounds, fil"),
        ("columns = 3\nunit = 'ward'", "unit must be one of row, person, client"),
        ("decimal = ';'", "decimal must be"),
        ("decimal = ','\nthousands = ','", "must not be the decimal mark, got ','"),
        ("test_fraction = 1", "test_fraction must be greater than 0 and less than 1"),
        ("[label]\ncolumn = 'y'\nclasses = ['a']", "2 to 1000 classes, got 1"),
        ("[label]\ncolumn = 3", "label must be a text, got 3"),
        ("nothing", "is no TOML file"),
        (
            "[columns.a]\ntype = 'x'\n[columns.b]\ntype = 'y'",
            "column a: .*; column b: ",
        ),
    ],
)
def test_a_schema_that_says_something_else_is_refused(
    columns: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        from_toml(f"schema = 1\n{columns}", "a.toml")


def test_knots_bend_a_number() -> None:
    column = dataclasses.replace(
        NUMBER, bounds=(0.0, 10.0), knots=(5.0, 8.0), units="g/dl"
    )
    features = column.scaled(np.array([-1.0, 5.0, 9.0, 99.0]))
    rows = [[-1, 0, 0], [0, 0, 0], [0.8, 0.8, 0.5], [1, 1, 1]]
    np.testing.assert_allclose(features, rows, atol=1e-6)
    assert column.width == 3
    text = to_toml(Schema({"a": column}, "ill", ILL))
    assert from_toml(text, "s").columns["a"] == column


def test_a_column_is_left_out_by_its_type_alone() -> None:
    """Its bounds, its fill and its mark had to be deleted too, line by line."""
    text = "schema = 1\n[columns.a]\ntype = 'drop'\nbounds = [1, 9]\nfrom_data = [1, 9]"
    column = from_toml(text, "a.toml").columns["a"]
    assert column == SchemaColumn("drop", from_data=(1.0, 9.0))


def test_zero_is_no_bound_of_the_records() -> None:
    """A count starts at 0 whatever the rows; any other end of theirs is asked about."""
    mark = (0.0, 7.0)
    for bounds, entries in (
        ((0, 20), {}),
        ((0, 7.05), {"bounds": "upper"}),
        ((-1, 20), {}),
    ):
        column = SchemaColumn("number", bounds=bounds, from_data=mark)
        assert as_read(Schema({"visits": column}), "visits") == entries


@pytest.mark.parametrize(
    ("mark", "bounds", "near"),
    [
        ((40, 116), (39, 116.5), "upper"),
        ((40, 116), (40.3, 118), "lower"),
        ((40, 116), (39, 118), ""),
        ((40, 90_000), (30, 120), ""),  # an outlier in grams
        ((40, 90_000), (40.2, 90_100), "lower and upper"),
        ((-20, 4), (-19.9, 5), "lower"),
        ((19_000, 20_000), (18_900, 20_009), "upper"),  # dates, in days
    ],
)
def test_one_outlier_makes_no_bound_a_copy_of_the_records(
    mark: tuple[float, float], bounds: tuple[float, float], near: str
) -> None:
    """Within 1 % of a range up to 90,000 g was any weight in kg."""
    column = SchemaColumn("number", bounds=bounds, from_data=mark)
    entries = as_read(Schema({"weight": column}), "weight")
    assert entries == ({"bounds": near} if near else {})


SHARES = "the shares of the schema fit the rows {} in another order"


@pytest.mark.parametrize(
    ("shares", "ill", "warns"),
    [
        ((0.7, 0.3), 42, ""),  # of 140 rows, which shares say in their order
        ((0.7, 0.3), 98, "far better"),  # for which join and train refuse a table
        ((0.6, 0.4), 98, "better"),
        ((0.9, 0.1), 42, ""),  # too much, but in the right order
        ((0.52, 0.48), 72, ""),  # by chance
        ((), 98, ""),
    ],
)
def test_shares_of_other_classes_are_said_to_who_has_the_rows(
    shares: tuple[float, ...],
    ill: int,
    warns: str,
    recwarn: pytest.WarningsRecorder,
) -> None:
    """.66 and .34 in the wrong order trained a model of the wrong biases, silently."""
    table = {"wage": WAGE.repeat(3)[:140], "ill": [ILL[n < ill] for n in range(140)]}
    from_table(table, schema=Schema({"wage": NUMBER}, "ill", ILL, shares))
    messages = [str(one.message) for one in recwarn.list]
    assert len(messages) == bool(warns)
    assert all(SHARES.format(warns) in text for text in messages)
    assert not any("98" in text or "0.7" in text for text in messages)


def test_the_manual_says_how_many_swapped_rows_join_refuses_or_asks_of() -> None:
    """It said that `join` refuses them; of 141 rows of .6 and .4 it only asked."""
    text = " ".join((ROOT / "docs" / "deploy.md").read_text().split())
    stated = re.findall(r"from (\d+) (?:rows on )?at (\.\d) and (\.\d)", text)
    assert len(stated) == 2 and "From a third of that on it asks." in text
    for digits, *shares in stated:
        first, second = map(float, shares)
        schema = Schema({"wage": NUMBER}, "ill", ILL, (first, second))
        for count, warns in (
            (int(digits), "far better"),
            (-(-int(digits) // 3), "better"),
        ):
            for rows in (count, count // 2):
                ill = [ILL[n < round(first * rows)] for n in range(rows)]  # mirrored
                table = {"wage": np.arange(rows) / rows, "ill": ill}
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    from_table(table, schema=schema)
                says = SHARES.format(warns) in str([one.message for one in caught])
                assert says == (rows == count), (count, rows)


def test_a_client_whose_classes_are_swapped_is_named() -> None:
    """Bern's 70 % among three hospitals of 30 % trained a useless model, silently."""
    ill = {"Chur": 18, "Bern": 42, "Genf": 18}
    table = {
        "wage": WAGE.repeat(6)[:180] + np.arange(180) / 1e4,
        "ill": [
            ILL[row < of_client] for of_client in ill.values() for row in range(60)
        ],
        "ward": np.repeat([*ill], 60),
    }
    schema = Schema({"wage": NUMBER}, "ill", ILL, (0.7, 0.3), client="ward")
    with pytest.warns(UserWarning, match="of the schema fit Bern better in another"):
        from_table(table, schema=schema)


def test_a_plan_looks_at_no_class_of_the_rows(
    recwarn: pytest.WarningsRecorder,
) -> None:
    schema = dataclasses.replace(DECLARED, shares=(0.1, 0.9))
    plan.divided(
        schema, {name: list(column) for name, column in TABLE.items()}, None, "t"
    )
    assert not recwarn.list


def test_faults_of_a_table_come_without_warnings(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Who trains nothing stood above what had to be mended."""
    table = TABLE | {"h": [*"ab" * 25, *"cdefghijkl"]}
    schema = dataclasses.replace(DECLARED, client="h")
    wrong = table | {"wage": ["x", *WAGE[1:]]}
    with pytest.raises(ValueError, match="column wage holds numbers and texts"):
        from_table(wrong, schema=schema)
    assert not recwarn.list
    from_table(table, schema=schema)
    (warning,) = recwarn.list
    assert "clients train nothing" in str(warning.message)


def test_what_a_reader_must_see_is_written_at_any_value() -> None:
    schema = Schema({"x": SchemaColumn("number")}, person="who")
    text = to_toml(schema)
    for line in ('unit = "person"', 'decimal = "."', "rows = 1", "bounds = [0.0, 0.0]"):
        assert line in text
    assert from_toml(text, "a.toml") == schema


def test_rows_of_another_file_become_the_features_that_training_had(
    tmp_path: pathlib.Path,
) -> None:
    """By the schema alone, the table of the training being gone."""
    head = "id,ward,age,dose,size,kind"
    rows = [
        f"{n},w{n % 3},{3 * n},{n / 7},{'SML'[n % 3]},{'ab'[n % 2]}" for n in range(25)
    ]
    trained = tmp_path / "trained.csv"
    trained.write_text("\n".join([head, *rows]))
    settings = TableSettings(
        label_column="kind", client_column="ward", drop_columns="id"
    )
    data = load_file(trained, settings)
    trained.unlink()
    assert data.schema is not None
    schema = from_toml(to_toml(data.schema), "a.toml")
    is_test = np.random.default_rng(0).permutation(25) < 5
    tested = [row for row, kept in zip(rows, is_test, strict=True) if kept]
    turned = [",".join(reversed(row.split(",")[2:5])) for row in tested]
    new = tmp_path / "new.csv"
    new.write_text("\n".join(["size,dose,age", *turned]))
    np.testing.assert_array_equal(load_rows(new, schema)[0].inputs, data.test_inputs)
    for content, message in {
        "age,dose\n1,2": "lacks the column size$",
        "age,dose,SIZE\n1,2,S": r"lacks the column size \(did you mean SIZE\?\)",
        "age,dose,size\n1,2,XL": "categories .'XL' in row 1",
        "age,dose,size\nold,2,S": "age holds numbers and texts .'old' in row 1, or 2 w",
        "age,dose,size\n": "has no rows",
    }.items():
        new.write_text(content)
        with pytest.raises(ValueError, match=message):
            load_rows(new, schema)
    new.write_text("age,dose,size\n1,,S\n1,2,\n1,2,S")
    rows, _ = load_rows(new, schema)
    assert np.isnan(rows.inputs).any(1).tolist() == [True, True, False]
    masks = {
        name: kinds["missing"] for name, kinds in rows.changed_cells.items() if kinds
    }
    assert {k: mask.tolist() for k, mask in masks.items()} == {
        "dose": [True, False, False],
        "size": [False, True, False],
    }


CELLS = """schema = 1
label = {column = "ill", classes = ["no", "yes"]}
[columns.weight]
type = "number"
bounds = [30, 200]
fill = 70
missing = ["-9"]
[columns.sex]
type = "category"
values = ["female", "male", "*"]
"""


@pytest.mark.filterwarnings("ignore:.*rows are left out")
def test_cells_of_persons_are_said_to_be_counted_over_all_rows() -> None:
    """Rows that [person] leaves out train nothing, and their cells were counted."""
    schema = from_toml(CELLS + "[person]\ncolumn = 'id'\nrows = 1\n", "s")
    table = {
        "weight": ["", "80"] * 20,
        "sex": ["male"] * 40,
        "ill": ["no", "yes"] * 20,
        "id": [f"p{n // 2}" for n in range(40)],
    }
    data = from_table(table, schema=schema)
    assert len(data.train_labels) + len(data.test_labels) == 20
    line = "20 of 40 cells (of all rows, also those left out) are missing"
    assert line in headline.filled("changed_rows", data)
    table = {name: cells for name, cells in table.items() if name != "id"}
    data = from_table(table, schema=from_toml(CELLS, "s"))
    assert "20 of 40 cells are missing" in headline.filled("changed_rows", data)


@pytest.mark.hole
def test_cells_that_do_not_fit_are_counted_for_the_owner_of_the_rows() -> None:
    """Grams for kilograms and M for male trained without a word."""
    table = {
        "weight": [
            *(["70000", "80", "", "-9", "90"] * 4),
            *(["70", "80", "", "-9", "90"] * 4),
        ],
        "sex": ["M", "female", "", "F", "*"] * 8,
        "ill": ["no", "yes"] * 20,
    }
    data = from_table(table, schema=from_toml(CELLS, "s"))
    said = headline.filled("changed_rows", data)
    lines = [
        "column weight: 4 of 40 cells are clamped to its bounds, in row 1, 6, 11, 16",
        "column weight: 16 of 40 cells are missing, and filled, in row 3, 4, 8, 9, 13",
        "warning: column sex: 24 of 40 cells are in none of its categories",
        "has the file other codes than the schema?",
        "column sex: 8 of 40 cells are missing, and taken as *, in row 3, 8, 13",
        "These counts looked at the rows: keep them to yourself.",
    ]
    for line in lines:
        assert line in said
    assert "unit" not in said
    table["weight"] = ["70000", *["80"] * 7] * 5  # an eighth, as of some in grams
    data = from_table(table, schema=from_toml(CELLS, "s"))
    assert "are they in another unit" in headline.filled("changed_rows", data)
    table["weight"], table["sex"] = ["70000", "80", "0"] * 13 + ["90"], ["male"] * 40
    data = from_table(table, schema=from_toml(CELLS, "s"))
    assert data.changed_cells["sex"] == {}
    said = headline.filled("changed_rows", data)
    assert said.startswith("warning: column weight: 13 of 40 cells are clamped to its")
    assert 'warning: column weight: 13 of 40 cells are "0", beyond its bounds' in said
    assert "are they in another unit than the schema's?" in said
    table["weight"] = ["70"] * 40
    data = from_table(table, schema=from_toml(CELLS, "s"))
    assert headline.filled("changed_rows", data) == ""
    # Codes of a part of the rows, as of one of two systems: counted, and not asked of.
    table["sex"] = ["male"] * 30 + ["1", "2"] * 5
    data = from_table(table, schema=from_toml(CELLS, "s"))
    said = headline.filled("changed_rows", data)
    assert said.startswith(
        "column sex: 10 of 40 cells are in none of its categories (female, male), and "
        "taken as *, in row 31, 32, 33, 34, 35 …: has the file other codes than"
    )


@pytest.mark.hole
@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        (["-9"] * 2, '"-9"'),  # of 42 cells: less than a tenth
        (["-9.0"] * 12, '"-9"'),
        (["-9", "-8"] * 9, '"-9", "-8"'),
        (["999"] * 2 + ["230"], '"999"'),
        (["0"] * 5 + ["20"], '"0"'),
        (["-9"], None),
        (["9"] * 2 + ["20"] * 3, None),  # too light
        (["201"] * 30, None),
    ],
)
def test_numbers_beyond_the_bounds_that_mean_a_missing_one_are_asked_of(
    codes: list[str], kind: str | None
) -> None:
    """-9 was clamped to the least weight, in another unit or without a question."""
    weight = [*codes, *["70", "80"] * 20]
    table = {
        "weight": weight,
        "sex": ["male"] * len(weight),
        "ill": [["no", "yes"][row % 2] for row in range(len(weight))],
    }
    text = CELLS.replace('missing = ["-9"]\n', "")
    said = headline.filled(
        "changed_rows", from_table(table, schema=from_toml(text, "s"))
    )
    assert ("missing" in said) == bool(kind)
    if kind is None:
        return
    count = sum(f'"{float(code):g}"' in kind for code in codes)
    counted = f"warning: column weight: {count} of {len(weight)} cells are {kind}, "
    assert counted + "beyond its bounds and clamped, in row 1, 2" in said
    assert "unit" not in said
    remedy = f"then leave them blank, or state missing = [{kind}], and a fill"
    assert remedy in said
    mended = from_toml(text.replace("fill = 70", f"fill = 70\nmissing = [{kind}]"), "s")
    masks = from_table(table, schema=mended).changed_cells["weight"]
    assert masks["missing"].sum() == count and f"{kind}" not in masks


@pytest.mark.hole
def test_a_client_whose_cells_do_not_fit_is_named_in_a_pooled_table() -> None:
    """One hospital's hours for days were 65 of 1495 cells, and no question."""
    rows = np.arange(240)
    client, is_last = np.array(["A", "B", "C"])[rows // 80], rows >= 160
    table = {
        "weight": np.where(is_last, 70_000, 70 + rows % 30),
        "sex": np.where(is_last, "M", "male"),
        "clinic": client,
        "ill": np.where(rows % 2, "yes", "no"),
    }
    table["weight"][:6] = 500  # of no more than a tenth: outliers
    text = CELLS.replace('["female", "male"', '["female", "male", "other"')
    schema = from_toml(text + '[client]\ncolumn = "clinic"\n', "s")
    with pytest.warns(UserWarning, match="there than the schema has") as warned:
        data = from_table(table, schema=schema)
    messages = [str(warning.message) for warning in warned]
    number = int(np.sum(data.train_writers == 2))
    of_client = rf"of C \({number} of {number} cells\): "
    for message, column, question in zip(
        sorted(messages),
        ("sex", "weight"),
        ("in none of its categories: other codes", "beyond its bounds: another unit"),
        strict=True,
    ):
        assert re.search(f"column {column} {of_client}{question} there", message)
        assert message.endswith("This looked at the rows: keep it to yourself")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_table({k: v[:160] for k, v in table.items()}, schema=schema)
        table["weight"][:] = 70
        table["sex"] = np.where(rows % 2, "male", "")  # half of each client's
        from_table(table, schema=schema)
    table["sex"] = np.where(is_last, "", "male")
    table["weight"] = np.where(client == "B", "", "70")
    with pytest.warns(UserWarning, match="missing, and filled: is it") as warned:
        from_table(table, schema=schema)
    assert len(warned) == 2
    for message in warned:
        assert re.search(
            r"column (weight of B|sex of C) \((\d+) of \2 cells\): "
            "missing, and filled: is it not recorded there, or named otherwise[?] "
            "This looked at the rows: keep it to yourself$",
            str(message.message),
        )


@pytest.mark.parametrize("label", ["", "alive"])
def test_a_label_that_is_no_class_is_answered_by_the_classes(label: str) -> None:
    """The remedy was `* for all others`, which no label has."""
    table = {"weight": ["70"] * 6, "sex": ["male"] * 6, "ill": ["no", "yes"] * 3}
    table["ill"][4] = label
    wrong = (
        rf"column ill is blank, or none of its categories \('{label}' in row 5.*; "
        "write one of the classes 'no', 'yes' in every row, and leave rows without one "
        "out$"
    )
    with pytest.raises(ValueError, match=wrong):
        from_table(table, schema=from_toml(CELLS, "s"))


def test_words_in_the_place_of_numbers_are_answered_by_numbers() -> None:
    table = {"weight": ["yes", "no"] * 3, "sex": ["male"] * 6, "ill": ["no", "yes"] * 3}
    with pytest.raises(
        ValueError, match=r"its bounds, 30 to 200, .*\(of 0 and 1: 0 for no and 1 for y"
    ):
        from_table(table, schema=from_toml(CELLS, "s"))


@pytest.mark.parametrize(
    ("row", "cell", "cause"),
    [
        (0, "Jahre", "'Jahre' in row 1, or 2 with the header: a row of units?)"),
        (-1, "Mittelwert", "in row 40, or 41 with the header: a footer?)"),
        (-1, "1O", "in row 40, or 41 with the header)"),
        (7, "Jahre", "in row 8, or 9 with the header)"),
        (7, "MÃ¼ller", "with the header: was 'MÃ¼ller' read in a wrong encoding?"),
        (7, "2,4-", "with the header: a minus behind the number? write -2.4)"),
        (
            7,
            "175/80",
            "the header: two numbers in a cell, as of a blood pressure?",
        ),
        (
            7,
            "1 Mon.",
            "the header: a number with its unit? write the number alone",
        ),
    ],
)
def test_what_a_cell_that_does_not_fit_may_be_is_said(
    row: int, cell: str, cause: str
) -> None:
    """A minus behind the number, of SAP, a row of units, a footer: none was named."""
    weight = ["70"] * 40
    weight[row] = cell
    table = {"weight": weight, "sex": ["male"] * 40, "ill": ["no", "yes"] * 20}
    with pytest.raises(ValueError, match=re.escape(cause)):
        from_table(table, schema=from_toml(CELLS, "s"))


def test_columns_that_are_left_out_are_one_line() -> None:
    """280 of 300 columns were 280 sections of two lines."""
    drop = SchemaColumn("drop")
    marked = dataclasses.replace(drop, from_data=True)
    columns = {"wage": NUMBER, "note, free": drop, "2nd": drop, "id": marked}
    schema = Schema(columns, "ill", ILL)
    text = to_toml(schema)
    assert '[drop]\ncolumns = ["note, free", "2nd"]\n' in text
    assert text.count('type = "drop"') == 1  # whose mark is still to be confirmed
    assert from_toml(text, "s") == schema
    each = text.replace('", "2nd"', '"') + '[columns.2nd]\ntype = "drop"\n'
    assert from_toml(each, "s") == schema
    twice = text.replace('"2nd"', '"wage"')
    with pytest.raises(ValueError, match=r"drop: \[columns.wage\] declares this colum"):
        from_toml(twice, "s")
    with pytest.raises(ValueError, match="drop: columns must be a list of texts"):
        from_toml(text.replace('["note, free", "2nd"]', "3"), "s")
