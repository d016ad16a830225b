"""From a CSV file to a proved model that predicts elsewhere, as a user types it."""

import csv
import json
import pathlib
import re

import numpy as np
import pytest
from commands import assert_sentence, command, succeeds
from small_runs import digits

from experiments import chosen, goal
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.tables.schema import from_toml
from fedsvp_jax.data.tables.table import from_table


def written(path: pathlib.Path) -> pathlib.Path:
    """A hospital's table: semicolons, decimal commas, blanks, dates, ids, hospitals."""
    rng = np.random.default_rng(0)
    rows = []
    for n in range(240):
        dose = rng.uniform(0, 10)
        ill = "ja" if dose + rng.normal() > 5 else "nein"
        told = "" if n % 9 == 0 else f"{dose:.2f}".replace(".", ",")
        day = f"{1 + n % 28:02}.0{1 + n % 9}.2020"
        place = ("Zürich", "Bern", "Genf")[n % 3]
        rows.append([f"p{n}", place, told, ("a", "b")[n % 2], day, ill])
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["id", "hospital", "dose", "kind", "admitted", "ill"])
        writer.writerows(rows)
    return path


def test_a_table_becomes_a_proved_model_that_predicts_elsewhere(
    tmp_path: pathlib.Path,
) -> None:
    data, schema = written(tmp_path / "data.csv"), tmp_path / "schema.toml"
    drafted = ("experiments.schema", str(data), f"--output={schema}")
    told = succeeds(*drafted, "--label_column=ill", "--thousands=.").stdout
    assert "client: hospital" in told and "an identifier?" in told, told
    assert re.search(r"class: ill \((ja|nein): 1\d\d, (ja|nein): 1?\d\d\)", told), told
    assert 'decimal = ","\nthousands = "."' in schema.read_text()
    assert_sentence(command(*drafted), "schema.toml exists")
    train = (
        "experiments.train",
        f"--data={data}",
        f"--schema={schema}",
        "--total_epsilon=8",
        "--num_rounds=4",
        "--noreport",
        f"--output_dir={tmp_path / 'run'}",
    )
    assert_sentence(command(*train, "--goal=proved"), "goal proved needs a schema that")
    confirm = ("experiments.schema", f"--confirm={schema}")
    refused = command(*confirm)
    assert_sentence(refused, "these entries are still what the records say: dose (bou")
    for part in ("(bounds, fill), kind (categories), admitted (bounds)", "ill (classe"):
        assert part in refused.stderr
    assert "# TODO: guessed, check it\n[client]" in schema.read_text()
    typed = command(*confirm, "--known=dosis,admitted,kind,ill")
    assert_sentence(typed, "known must be one of ")
    assert "'dosis' (did you mean dose?)" in typed.stderr
    confirmed = succeeds(*confirm, "--known=dose,admitted,kind,ill").stdout
    assert "# TODO" not in schema.read_text()
    assert 'values = ["a", "b", "*"]' in confirmed
    assert 'classes = ["ja", "nein"]' in confirmed and "from_data" not in confirmed
    assert re.search(r"\[columns.dose\]\n.*\nbounds = \[0.0\d*, 9.9\d*\]", confirmed)
    assert not any(
        one.startswith("from_data") for one in schema.read_text().split("\n")
    )
    group = ("--attributes=column:kind", "--private_category=a")
    assert_sentence(
        command(*train, "--goal=proved", *group), "hides every row, and --a"
    )
    done = succeeds(*train, "--goal=proved")
    assert "changes the view of the server by at most ε = " in done.stdout
    assert "(proved, unless one of its" in done.stdout
    assert "Without any privacy, logistic regression on the pooled" in done.stdout
    kept = json.loads((tmp_path / "run" / "reference.json").read_text())
    assert f"{kept['auc']:.3f} (95 %" in done.stdout.split("Without any privacy")[1]
    assert "cannot run this route yet" in done.stdout
    assert "basic" not in done.stdout  # one ε, that of the sentence
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert sum(summary["test_scores"]["counts"].values()) == 48
    assert len(summary["by_client"]) == 3
    assert sorted(summary["client_names"]) == ["Bern", "Genf", "Zürich"]
    data.unlink()
    new = tmp_path / "new.csv"
    new.write_text("dose,kind,admitted,more\n5,a,2020-05-01,1\n,c,NA,2\n")
    model = str(tmp_path / "run" / "model.safetensors")
    predict = ("experiments.predict", model, str(new), f"--to={tmp_path}/out.csv")
    assert_sentence(command(*predict), "lacks a finite number ('NA' in row 2")
    new.write_text("dose,kind,admitted\n5,a,2020-05-01\n,c,1.6.2020\n")
    succeeds(*predict)
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert len(rows) == 2 and set(rows[0]) >= {"probability of ja"}


@pytest.mark.hole
def test_public_shares_are_confirmed_as_they_stand(tmp_path: pathlib.Path) -> None:
    """`shares` of a registry were "still what the records say"; no draft has any."""
    schema = tmp_path / "schema.toml"
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'ill'\nclasses = ['a', 'b']\n"
        "shares = [0.7, 0.3]\nfrom_data = true  # TODO\n[columns.dose]\n"
        "type = 'number'\nbounds = [0, 20]\n"
    )
    confirm = ("experiments.schema", f"--confirm={schema}")
    refused = command(*confirm)
    assert_sentence(refused, "still what the records say: ill (classes). State")
    assert "shares = [0.7, 0.3]" in succeeds(*confirm, "--known=ill").stdout


@pytest.mark.hole
def test_columns_names_the_features(tmp_path: pathlib.Path) -> None:
    """There was --drop_columns alone: of 40 columns 36 had to be named."""
    data, schema = tmp_path / "data.csv", tmp_path / "schema.toml"
    lines = [f"{n // 2},{n % 3},{n % 40},{n % 7},{'ab'[n % 2]}" for n in range(60)]
    data.write_text("\n".join(["patient,stage,age,dose,ill", *lines]) + "\n")
    draft = ("experiments.schema", str(data), f"--output={schema}")
    assert_sentence(command(*draft, "--columns=AGE"), "(did you mean age?)")
    stated = succeeds(*draft, "--columns=stage,age,dose", "--drop_columns=dose").stdout
    drafted = from_toml(schema.read_text(), "schema.toml")
    kinds = {name: column.type for name, column in drafted.columns.items()}
    assert kinds == {"stage": "number", "age": "number", "dose": "drop"}
    assert drafted.person == "patient"  # no feature is lost by it, and a unit is won
    note = 'type = "category", values = ["0", "1", "2", "*"]'
    assert note in stated and note in schema.read_text()


@pytest.mark.hole
def test_a_median_is_confirmed_as_bounds_are(tmp_path: pathlib.Path) -> None:
    """`fill = 4` of the records passed as stated without them, with its comments."""
    schema = tmp_path / "schema.toml"
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'ill'\nclasses = ['a', 'b']\n"
        "# TODO: 9 % of the cells are missing\n[columns.dose]\ntype = 'number'\n"
        "bounds = [0, 20]\nfill = 4\nfrom_data = [0.4, 10]  # TODO\n"
    )
    confirm = ("experiments.schema", f"--confirm={schema}")
    assert_sentence(command(*confirm), "what the records say: dose (fill). State")
    succeeds(*confirm, "--known=dose")
    assert "TODO" not in schema.read_text() and "missing" not in schema.read_text()


def test_no_client_is_said_to_be_guessed_where_none_was(tmp_path: pathlib.Path) -> None:
    data, schema = tmp_path / "data.csv", tmp_path / "schema.toml"
    data.write_text("age,ill\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(30)))
    told = succeeds("experiments.schema", str(data), f"--output={schema}").stdout
    assert "client: no column has such a name" in told
    assert "client: TODO" not in told + schema.read_text()


def test_images_take_a_linear_layer_on_features_that_no_client_decided() -> None:
    told = goal.route_settings(ExperimentConfig(dataset="digits"), digits())
    assert told["model"] == "scatter_linear" and told["num_clients"] == 1
    assert told["clipping"] == "per_example" and told["batches"] == "poisson"
    assert told["l2_norm_clip"] == 0.1 and told["partition"] == "iid"
    named = ExperimentConfig(dataset="digits", num_clients=3, cohort_size=2)
    assert goal.route_settings(named, digits())["cohort_size"] == 3


def test_hospitals_whose_rows_are_all_for_the_test_are_counted() -> None:
    """Of medpar two hospitals of one row took no part, and nothing said so."""
    text = (
        "schema = 1\n[label]\ncolumn = 'y'\nclasses = ['a', 'b']\n"
        "[client]\ncolumn = 'h'\n[columns.x]\ntype = 'number'\nbounds = [0, 60]\n"
    )
    clients = ["abc"[n % 3] for n in range(50)] + [f"alone {n}" for n in range(10)]
    table = {"x": range(60), "y": ["ab"[n % 2] for n in range(60)], "h": clients}
    with pytest.warns(UserWarning, match=r"clients train nothing.*: alone \d"):
        data = from_table(table, schema=from_toml(text, "schema.toml"))
    config = resolve(ExperimentConfig(dataset="csv"), dataset=data)
    told = chosen.text(config, (), data)
    assert re.search(r"\([1-9] of them of clients that have no other\)", told), told
