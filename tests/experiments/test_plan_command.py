"""`experiments.plan`: what ε bounds, and synthetic rows of the schema's shape."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
from commands import assert_sentence, command, succeeds

from experiments import plan
from fedsvp_jax.data.tables import cells
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn

SCHEMA = Schema(
    {
        "age": SchemaColumn("number", bounds=(0, 9)),
        "sex": SchemaColumn("category", values=("f", "m", "*")),
        "id": SchemaColumn("drop"),
    },
    "ill",
    ("no", "yes"),
    (0.8, 0.2),
)


def test_synthetic_rows_have_the_schemas_shape_and_the_clients_sizes() -> None:
    data = plan.synthetic(SCHEMA, [5, 9], seed=1, auc=0.8)
    assert data.train_inputs.shape == (14, 4) and data.num_classes == 2
    assert np.bincount(data.train_writers).tolist() == [5, 9]
    assert np.all(data.train_inputs[:, 1:].sum(1) == 1)
    assert data.test_labels.mean() == pytest.approx(0.2, abs=0.04)


def test_synthetic_persons_have_the_rows_that_are_kept_of_those_in_the_table() -> None:
    schema = dataclasses.replace(
        SCHEMA, client="ward", person="who", unit="person", rows_per_person=2
    )
    whose = np.repeat(list("abcdefghij"), [5, 1, 1, 2, 3, 1, 4, 1, 1, 1])
    wards = np.where(whose < "f", "one", "two")
    table = {
        "who": cells.column_of(whose, "who"),
        "ward": cells.column_of(wards, "ward"),
    }
    sizes, persons = plan._persons(schema, table, 0.8)
    data = plan.synthetic(schema, sizes, 1, persons)
    assert sizes == [6, 5] and data.rows_per_person == 2
    of_wards = np.split(data.train_persons, [6])
    kept = [np.unique(ward, return_counts=True)[1].tolist() for ward in of_wards]
    assert kept == [[2, 1, 1, 2], [1, 2, 1, 1]]


@pytest.mark.hole
def test_the_table_is_printed_and_written(tmp_path: pathlib.Path) -> None:
    data, schema = tmp_path / "a.csv", tmp_path / "a.toml"
    data.write_text("x,y\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(60)))
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'y'\nclasses = ['a', 'b']\nshares = [0.5, 0.5]\n"
        "[client]\ncolumn = 'ward'\n[columns.x]\ntype = 'number'\nbounds = [0, 60]\n"
    )
    out = tmp_path / "plan"
    line = ("experiments.plan", str(data), f"--schema={schema}")
    assert_sentence(command(*line), "lacks the column ward")
    line = (*line, "--client_column=none")
    done = succeeds(*line, "--total_epsilon=9", "--num_seeds=2", f"--output_dir={out}")
    assert "1 client of 48 training rows" in done.stdout
    assert "every ε is at δ = 1e-05; against: server; neighbours: " in done.stdout
    told = json.loads((out / "epsilon.json").read_text())
    (point,) = told["points"]
    assert point["epsilon"] == 9 and point["uploads_left"] == 0
    assert point["accuracy"]["seeds"] == told["fedavg"]["seeds"] == 2
    assert {one["status"] for one in point["guarantees"]} == {"proved"}
    assert "synthetic rows" in (out / "epsilon.html").read_text()
    assert_sentence(command(*line, "--total_epsilon=0"), "positive numbers")
