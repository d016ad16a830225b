"""Tables with a header: CSV files, frames, and what columns become."""

import dataclasses
import os
import pathlib

import numpy as np
import pandas
import pytest

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import sources
from fedsvp_jax.data.source_settings import TableSettings
from fedsvp_jax.data.tables import csv_file, draft, table
from fedsvp_jax.data.tables.schema import from_toml, to_toml
from fedsvp_jax.data.tables.table import from_table

ROWS = 40
AGES = np.arange(ROWS) + 20.0
TABLE = {
    "age": AGES,
    "sex": np.array(["f", "m"])[np.arange(ROWS) % 2],
    "ward": np.array(["north", "south", "west", "east"])[np.arange(ROWS) % 4],
    "id": np.array([f"row {n}" for n in range(ROWS)]),
    "ill": np.array(["no", "yes", "unsure"])[np.arange(ROWS) % 3],
}
READ = {"label": "ill", "client": "ward", "drop": ("id",)}


def write(path: pathlib.Path) -> pathlib.Path:
    rows = [TABLE.keys(), *zip(*TABLE.values(), strict=True)]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def test_numbers_are_scaled_texts_are_one_hot_and_classes_keep_their_names() -> None:
    data = from_table(TABLE, **READ)
    assert data.class_names == ("no", "unsure", "yes")
    assert data.train_inputs.shape == (32, 3) and len(data.test_labels) == 8
    assert data.columns["sex"].categories == ("f", "m")
    assert data.test_columns["sex"].categories == ("f", "m")
    assert data.train_inputs[:, 0].min() == -1 and data.train_inputs[:, 0].max() == 1
    ages = np.sort(np.concatenate([data.train_inputs, data.test_inputs])[:, 0])
    low, high = data.schema.columns["age"].bounds
    scaled = (np.clip(AGES, low, high) - low) / (high - low)
    np.testing.assert_allclose(ages, 2 * scaled - 1, atol=1e-6)
    assert set(data.train_writers.tolist()) == {0, 1, 2, 3}
    of_sex = data.train_inputs[np.arange(32), 1 + data.columns["sex"].codes]
    assert np.all(of_sex == 1)


@pytest.mark.hole
def test_nobodys_column_takes_the_place_of_the_schemas(tmp_path: pathlib.Path) -> None:
    """`none` was looked for as a column by train, and taken by schema alone."""
    schema = from_toml(SCHEMA, "s")
    path, named = write(tmp_path / "a.csv"), tmp_path / "a.toml"
    named.write_text(SCHEMA)
    settings = TableSettings(schema=str(named), client_column="none")
    data = sources.load("csv", path, settings)
    assert data.train_writers is None and data.schema.client is None
    assert data.train_inputs.shape[1] == 1 and schema.client == "ward"


SCHEMA = """schema = 1
[label]
column = "ill"
classes = ["no", "yes", "unsure"]
[client]
column = "ward"
[columns.age]
type = "number"
bounds = [0, 100]
[columns.sex]
type = "drop"
[columns.id]
type = "drop"
"""


def test_a_csv_file_is_the_table_that_it_holds(tmp_path: pathlib.Path) -> None:
    settings = TableSettings(
        label_column="ill", client_column="ward", drop_columns="id"
    )
    data = sources.load("csv", write(tmp_path / "a.csv"), settings)
    assert data.fingerprint == from_table(TABLE, **READ).fingerprint


def test_a_frame_is_the_table_that_it_holds() -> None:
    made = from_table(pandas.DataFrame(TABLE), **READ)
    assert made.fingerprint == from_table(TABLE, **READ).fingerprint


class HuggingFace:
    """What `datasets.Dataset` offers: names, and a column by its name as a list."""

    def __init__(self, columns: dict) -> None:
        self._columns = columns
        self.column_names = list(columns)

    def __getitem__(self, name: str) -> list:
        return list(self._columns[name])


def test_a_data_set_of_hugging_face_may_have_a_test_set() -> None:
    def part(rows: int) -> HuggingFace:
        return HuggingFace({"x": np.arange(rows) / rows, "label": np.arange(rows) % 3})

    data = from_table(part(9), label="label", test=part(3))
    assert data.train_inputs.shape == (9, 1) and len(data.test_labels) == 3
    assert data.num_classes == 3


@pytest.mark.parametrize(
    ("columns", "changes", "message"),
    [
        ({}, {"label": "il"}, "did you mean ill.*; it has age, "),
        ({}, {"drop": ("sexx",)}, "did you mean sex"),
        ({"age": np.where(AGES > 50, np.nan, 3)}, {}, "age lacks a finite nu"),
        ({"ill": AGES / 7}, {}, "column ill holds numbers that are no classes"),
        ({"sex": AGES[:3]}, {}, "columns of one length; theirs"),
    ],
)
def test_what_no_table_can_be_is_one_sentence(
    columns: dict, changes: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        from_table(TABLE | columns, **(READ | changes))


def test_the_last_two_rows_of_every_client_train_and_the_first_others_do_not() -> None:
    """Against loops over rows: 30 of at most 8 clients, 12 for the test."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        clients = np.unique(rng.integers(8, size=30), return_inverse=True)[1]
        by_order = rng.permutation(30)
        order = np.argsort(by_order)
        tested = set(by_order[:12].tolist())
        rows_of = [[n for n in by_order if clients[n] == c] for c in set(clients)]
        if any(len(set(rows) - tested) < 2 for rows in rows_of):
            kept = {n for rows in rows_of if len(rows) > 1 for n in rows[-2:]}
            tested = {*[n for n in by_order if n not in kept][:12]}
        is_test = table._draw_rows(order, 12, clients)
        assert {*np.flatnonzero(is_test).tolist()} == tested


def test_a_label_may_differ_in_every_row_and_must_be_named(
    tmp_path: pathlib.Path,
) -> None:
    for label in ("age", "id"):
        assert from_table(TABLE, label=label).num_classes == ROWS
    with pytest.raises(ValueError, match=r"label_column, one of age, sex.*schema"):
        sources.load("csv", write(tmp_path / "a.csv"), TableSettings())


ODD = {
    "age": ["61", "72", "NA", "unknown"] * 10,
    "ward": ["a", "b", "", "c"] * 10,
    "weight": ["70,5", "82", "64,25", ""] * 10,
    "admitted": ["2020-01-31", "31.12.2021", "", "2022-06-01T12:00"] * 10,
    "id": [str(n) for n in range(ROWS)],
    "empty": ["", "NA"] * 20,
    "dead": ["no", "yes"] * 20,
}


def test_a_draft_reads_the_table_that_it_was_drafted_of() -> None:
    """Missing numbers, decimal commas, dates, ids: proposed, marked, and read."""
    columns = {name: np.array(values, object) for name, values in ODD.items()}
    texts = {
        k: np.array(v.tolist(), np.dtypes.StringDType()) for k, v in columns.items()
    }
    with pytest.raises(ValueError, match=r"ward names no client .'' in row 3"):
        draft.proposed(texts, label="dead", client="ward", source="a.csv")
    texts["ward"] = np.where(texts["ward"] == "", "d", texts["ward"])
    found, notes = draft.proposed(texts, label="dead", client="ward", source="a.csv")
    kinds = {name: column.type for name, column in found.columns.items()}
    assert kinds == {
        "age": "number",
        "weight": "number",
        "admitted": "date",
        "id": "drop",
        "empty": "drop",
    }
    assert found.notation.decimal == "," and found.columns["age"].missing == (
        "unknown",
    )
    assert "missing number" in notes["columns.age"]
    assert set(found.from_records) == {
        "the classes of dead",
        *(f"the bounds of {name}" for name in ("age", "weight", "admitted")),
        *(f"the leaving out of {name}" for name in ("id", "empty")),
    }
    again = from_toml(to_toml(found, notes, "head"), "a.toml")
    assert again == found
    of_filled = r"column \w+ of \w \(.* cells\): missing, and filled"
    with pytest.warns(UserWarning, match=of_filled) as warned:
        data = from_table(texts, schema=again)
    assert len(warned) == 3
    assert data.train_inputs.shape[1] == 3 and len(set(data.train_writers)) == 4
    assert np.abs(data.train_inputs).max() <= 1
    assert draft.guessed(texts) == {"label": "dead", "client": "ward"}
    dates = np.where(texts["admitted"] == "2020-01-31", "5", texts["admitted"])
    with pytest.raises(ValueError, match=r"no date .'5' in row 1.*missing = \['5'\]"):
        from_table(texts | {"admitted": dates}, schema=again)
    dates = np.where(dates == "5", "2020-02-30", dates)  # is no mark of a missing one
    with pytest.raises(ValueError, match=r"no date .*calendar, as 2024-12-31") as slip:
        from_table(texts | {"admitted": dates}, schema=again)
    assert "missing =" not in str(slip.value)
    with (
        pytest.warns(UserWarning, match=of_filled),
        pytest.warns(UserWarning, match="not name are ignored: more"),
    ):
        more = from_table(texts | {"more": texts["id"]}, schema=again)
    np.testing.assert_array_equal(more.train_inputs, data.train_inputs)
    renamed = {"ages" if name == "age" else name: texts[name] for name in texts}
    with pytest.raises(ValueError, match=r"lacks the column age .did you mean ag"):
        from_table(renamed, schema=again)


@pytest.mark.hole
def test_columns_beyond_the_schema_are_ignored_but_no_role(
    tmp_path: pathlib.Path,
) -> None:
    """A site's table had to have the schema's columns and no other."""
    schema = tmp_path / "a.toml"
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'ill'\nclasses = ['no', 'yes', 'unsure']\n"
        "[person]\ncolumn = 'ward'\n[columns.age]\ntype = 'number'\nbounds = [0, 99]\n"
    )
    path = write(tmp_path / "a.csv")
    rest = TableSettings(schema=str(schema), test_fraction=0.5)
    with pytest.warns(UserWarning) as warned:
        data = sources.load("csv", path, rest)
    assert str(warned[-1].message).endswith("does not name are ignored: id, sex")
    assert len(data.train_labels) == len(data.test_labels) == 2  # a row of each person
    assert data.rows_per_person == 1 and data.train_inputs.shape == (2, 1)
    path.write_text(path.read_text().replace("ward", "place"))
    with pytest.raises(
        ValueError, match=r"lacks the column ward; it has age, sex, place, id, ill"
    ):
        sources.load("csv", path, rest)


@pytest.mark.hole
def test_a_command_reads_a_table_once_and_a_changed_one_anew(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts for the defaults and rows for the training were two readings."""
    read, times = csv_file.read, []
    monkeypatch.setattr(csv_file, "read", lambda *of: times.append(1) or read(*of))
    path = write(tmp_path / "a.csv")
    named = {"label_column": "ill", "client_column": "ward", "drop_columns": "id"}
    config = ExperimentConfig(dataset="csv", data_dir=str(path), **named)
    facts = sources.facts(config)
    data = sources.load("csv", path, config)
    assert facts.num_examples == len(data.train_labels) and len(times) == 1
    before = path.stat()
    path.write_text(path.read_text().replace("unsure", "  sure"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "sure" in sources.load("csv", path, config).class_names
    other = dataclasses.replace(config, drop_columns=None)
    assert "row 1" in sources.load("csv", path, other).columns["id"].categories
    assert len(times) == 3
