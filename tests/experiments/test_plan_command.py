"""`experiments.plan`: what ε bounds, and synthetic rows of the schema's shape."""

import json
import pathlib

import numpy as np
import pytest
from commands import assert_sentence, command, succeeds

from experiments import plan
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn

SCHEMA = Schema(
    {
        "age": SchemaColumn("number", bounds=(0, 9)),
        "sex": SchemaColumn("category", values=("f", "m", "*")),
        "id": SchemaColumn("drop"),
    },
    "ill",
    ("no", "yes"),
)


def test_synthetic_rows_have_the_schemas_shape_and_the_clients_sizes() -> None:
    data = plan.synthetic(SCHEMA, [5, 9], seed=1)
    assert data.train_inputs.shape == (14, 4) and data.num_classes == 2
    assert np.bincount(data.train_writers).tolist() == [5, 9]
    assert np.all(data.train_inputs[:, 1:].sum(1) == 1)
    assert 0.3 < data.test_labels.mean() < 0.7


@pytest.mark.hole
def test_the_table_is_printed_and_written(tmp_path: pathlib.Path) -> None:
    data, schema = tmp_path / "a.csv", tmp_path / "a.toml"
    data.write_text("x,y\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(60)))
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'y'\nclasses = ['a', 'b']\n"
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
