"""`experiments.predict`: the accuracy, the file of predictions, the exported model."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pytest
from commands import assert_sentence, command, succeeds
from quick_training import quick_training  # noqa: F401, a fixture
from small_runs import digits

from experiments import predict
from fedsvp_jax import run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.tables import encoding, table, table_file
from fedsvp_jax.data.tables.schema import from_toml


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_run_predicts_examples_and_exports_its_model(
    whole_run: Path, tmp_path: Path
) -> None:
    folder, target = (
        Path(shutil.copytree(whole_run, tmp_path / "run")),
        tmp_path / "p.csv",
    )
    np.save(tmp_path / "new.npy", digits().test_inputs)
    new = (str(tmp_path / "new.npy"), f"--to={target}")
    succeeds("experiments.predict", str(folder), *new)
    predicted = [int(row["predicted"]) for row in read(target)]
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    right = np.mean(predicted == digits().test_labels)
    assert right == pytest.approx(last["test_accuracy"], abs=1e-6)
    model = tmp_path / "model.safetensors"
    done = succeeds("experiments.predict", str(folder), f"--export={model}")
    assert str(model) in done.stdout and model.stat().st_size > 1000


@pytest.mark.usefixtures("quick_training")
def test_a_run_on_a_table_predicts_another_table(tmp_path: Path) -> None:
    """Row by row what the model says of the same rows in the training's table."""
    rows = [f"{n / 3:.3f},{'uvw'[n % 3]},{('no', 'yes')[n % 2]}" for n in range(60)]
    trained, new = tmp_path / "trained.csv", tmp_path / "new.csv"
    trained.write_text("\n".join(["x,kind,ill", *rows]))
    new.write_text(
        "\n".join(["kind,x", *(",".join(row.split(",")[1::-1]) for row in rows)])
    )
    told = {"dataset": "csv", "data_dir": str(trained), "label_column": "ill"}
    told |= {"mechanism": "none", "num_attributes": 1, "num_rounds": 1}
    folder, target = tmp_path / "run", tmp_path / "out.csv"
    run.train(resolve(ExperimentConfig(**told)), folder)
    model = run.load_model(folder)
    assert model.schema is not None
    chances = model.probabilities(table.load_rows(new, model.schema)[0].inputs)
    frame = pandas.read_csv(new, dtype=str, encoding="utf-8")
    with pytest.raises(ValueError, match="not a data frame: encode it by data"):
        model.predict(frame)
    columns = table_file.columns_of(frame, "new rows")
    rows_of_frame = encoding.encode(model.schema, columns, "new rows", of_model=True)
    np.testing.assert_array_equal(model.probabilities(rows_of_frame.inputs), chances)
    names = [("no", "yes")[code] for code in chances.argmax(-1)]
    file = tmp_path / "elsewhere.safetensors"
    model.save(file)
    taken = run.load_model(file)
    assert taken.claims == model.claims and taken.schema == model.schema
    trained.unlink()
    for place in (folder, file):
        line = ("experiments.predict", str(place), str(new), f"--to={target}")
        ended = succeeds(*line)
        assert "its claims are nominal, and it holds what was read" in ended.stderr
        assert_sentence(command(*line), "out.csv exists; name another file by --to")
        rows = read(target)
        target.unlink()
        assert [row["predicted"] for row in rows] == names
        of_yes = [float(row["probability of yes"]) for row in rows]
        np.testing.assert_allclose(of_yes, chances[:, 1], atol=1e-4)
        shutil.rmtree(folder, ignore_errors=True)
    new.write_text("kind,x\nz,1\n")
    refused = command(*line)
    assert_sentence(refused, "categories ('z' in row 1, or 2 with the header); mend")
    assert 'the model takes type = "category", values = ["u", "v", "w"]' in (
        refused.stderr
    )
    new.write_text("kind,x\nu,old\n")
    refused = command(*line)
    assert_sentence(
        refused, "column x holds numbers and texts ('old' in row 1, or 2 wi"
    )
    assert "mend the cells, for the model takes type" in refused.stderr
    assert "schema`" not in refused.stderr and "--drop" not in refused.stderr
    new.write_text("kind,x,ill\nu,,no\nv,1,yes\n,2,no\n")
    said = succeeds(*line).stdout  # one blank cell refused the whole file
    lacks = "missing, and their rows get no prediction, since the schema has no fill"
    assert f"column x: 1 of 3 cells are {lacks}, in row 1\n" in said
    assert f"column kind: 1 of 3 cells are {lacks}, in row 3\n" in said
    assert "Accuracy on 1 rows" in said
    blank, full, last = read(target)
    assert blank["predicted"] == last["probability of no"] == "" != full["predicted"]


SCHEMA = """schema = 1
[label]
column = "ill"
classes = ["no", "yes"]
[columns.x]
type = "number"
bounds = [0, 10]
[columns.row]
type = "drop"
"""


def train_on(table: Path, lines: list[str]) -> None:
    """Writes the table and its schema, and a run of one round beside them."""
    table.write_text("\n".join(["x,row,ill", *lines]))
    schema = table.with_name("schema.toml")
    schema.write_text(SCHEMA)
    told = {"dataset": "csv", "data_dir": str(table), "mechanism": "none"}
    told |= {"schema": str(schema), "num_attributes": 1}
    run.train(resolve(ExperimentConfig(**told, num_rounds=1)), table.with_name("run"))


@pytest.mark.hole
@pytest.mark.usefixtures("quick_training")
def test_predictions_carry_ids_count_from_one_and_tell_what_is_clamped(
    tmp_path: Path,
) -> None:
    """Ids, rows and clamped cells as written by hand into the two tables."""
    trained, new = tmp_path / "trained.csv", tmp_path / "new.csv"
    lines = [f"{n % 11},p{n:03},{('no', 'yes')[n % 2]}" for n in range(60)]
    train_on(trained, lines)

    new.write_text("visit,x,row\n=a,-1,007\nb,11.5,007\nc,10,\n")
    line = ("experiments.predict", str(tmp_path / "run"), str(new))
    said = succeeds(*line).stdout
    rows = read(tmp_path / "run" / "predictions.csv")
    assert [row["row"] for row in rows] == ["1", "2", "3"]
    assert [row["visit"] for row in rows] == ["=a", "b", "c"]
    assert [row["row (as written)"] for row in rows] == ["007", "007", ""]
    assert (
        "column x: 2 of 3 cells are clamped to its bounds, in row 1, 2: are they"
        in said
    )
    new.write_text("x\n" + "11\n" * 7)
    accepted = (*line, f"--to={tmp_path / 'many.csv'}", "--accept_units")
    said = succeeds(*accepted).stdout
    assert "7 of 7 cells are clamped to its bounds, in row 1, 2, 3, 4, 5 …: " in said
    for flag in ("to=many.csv", "export=model.safetensors"):
        name, _, file = flag.partition("=")
        (tmp_path / file).write_text("mine")
        ended = command(*line[: 3 - (name == "export")], f"--{name}={tmp_path / file}")
        assert_sentence(ended, f"{file} exists; name another file by --{name}")
        assert (tmp_path / file).read_text() == "mine"


@pytest.mark.hole
@pytest.mark.usefixtures("quick_training")
def test_a_table_in_another_unit_gets_no_predictions(tmp_path: Path) -> None:
    """Pounds for kilograms were clamped to a bound each, and the status was 0."""
    trained, new = tmp_path / "trained.csv", tmp_path / "new.csv"
    lines = [f"{n % 11},p{n:03},{('no', 'yes')[n % 2]}" for n in range(60)]
    train_on(trained, lines)
    line = ("experiments.predict", str(tmp_path / "run"), str(new))
    target = tmp_path / "run" / "predictions.csv"
    beyond = "(it has 22 to 220, its bounds are 0 to 10): are they in another unit"
    for cells, wrong in (
        ("22 44 66 110 220", "5 of 5 cells are clamped"),
        ("22 220", "2 of 2 cells are clamped"),
        ("1 2 -9 3 -9", '2 of 5 cells are "-9", beyond its bounds and clamped'),
        ("-9", '1 of 1 cells are "-9", beyond its bounds and clamped'),
        ("1 2 3 4 5 999", '1 of 6 cells are "999", beyond its bounds and clamped'),
        ("1 2 3 4 5 6 7 22 44 220", "3 of 10 cells are clamped"),
        ("1 2 3 4 22", ""),  # a cell, or one row's, is no unit
        ("1 2 3 22 44", ""),
        ("22", ""),
    ):
        new.write_text("\n".join(["x", *cells.split()]))
        ended = command(*line)
        if wrong:
            assert_sentence(ended, f"column x: {wrong}")
            asked = beyond.replace("22 to", "1 to" if "1 2" in cells else "22 to")
            assert (asked in ended.stderr) == ("220" in cells)
            # The schema is the model's: nobody can state a mark in it any more.
            assert "state missing" not in ended.stderr
            remedy = "leave them blank, or write them as the model's schema does"
            assert (remedy in ended.stderr) == ("clamped" not in wrong[:25])
            assert "predict with --accept_units. This looked at" in ended.stderr
            assert not target.exists() and not ended.stdout
            ended = command(*line, "--accept_units")
        assert ended.status == 0, ended
        target.unlink()


@pytest.mark.hole
def test_rows_that_name_their_class_are_scored(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """AUC and accuracy as counted here, by pairs."""
    schema = from_toml(SCHEMA, "schema.toml")
    written = ["no", "yes", "yes", "*", "", "no", "yes", "maybe", "no", "yes"]
    of_yes = np.linspace(0.2, 0.8, 10)
    chances = np.stack([1 - of_yes, of_yes], axis=1)
    predict._print_scores(schema, pa.chunked_array([written]), chances)
    said = capsys.readouterr().out
    rows = [(n, cell) for n, cell in enumerate(written) if cell in ("no", "yes")]
    pairs = [n > m for n, one in rows for m, other in rows if (one, other) == YES_NO]
    right = sum((n > 4) == (cell == "yes") for n, cell in rows)
    assert "column ill: 7 of 10 rows name a class\n" in said
    assert f"AUC {np.mean(pairs):.3f} (95 %: " in said and np.mean(pairs) != 0.5
    assert f"Accuracy on 7 rows: {100 * right / 7:.1f} % (95 %: " in said
    assert "Rows that trained the model flatter it." in said
    assert "ill holds other codes (*, maybe) than the model's classes (no, yes)" in said
    assert "reverse order" not in said


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ("yes no", "ranks these rows in the reverse order: are the classes of this "),
        ("0 1", "column ill holds other codes (0, 1) than the model's classes (no, y"),
        ("no yes", ""),
    ],
)
def test_swapped_classes_and_other_codes_are_said_where_rows_are_scored(
    classes: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An AUC of 0.178 was "not shown to be better than guessing", and 0/1 no class."""
    of_yes = np.linspace(0.1, 0.9, 40)
    written = pa.chunked_array([np.repeat(classes.split(), 20).tolist()])
    chances = np.stack([1 - of_yes, of_yes], axis=1)
    predict._print_scores(from_toml(SCHEMA, "s"), written, chances)
    printed = capsys.readouterr().out
    assert words in printed and ("warning" in printed) == bool(words)


YES_NO = "yes", "no"


@pytest.mark.hole
@pytest.mark.usefixtures("quick_training")
def test_scores_are_of_files_with_the_column_of_the_class(tmp_path: Path) -> None:
    trained, new = tmp_path / "trained.csv", tmp_path / "new.csv"
    lines = [f"{n % 11},p{n:03},{('no', 'yes')[n % 11 > 4]}" for n in range(60)]
    train_on(trained, lines)
    line = ("experiments.predict", str(tmp_path / "run"), str(new))
    for name, content, words in (
        ("a", "x,ill\n1,no\n2,yes\n3,?\n", "column ill: 2 of 3 rows name a class\n"),
        ("b", "x,ill\n1,*\n2,\n", "column ill: 0 of 2 rows name a class\n"),
        ("c", "x\n1\n2\n", ""),
    ):
        new.write_text(content)
        said = succeeds(*line, f"--to={tmp_path / name}.csv").stdout
        assert words in said and ("AUC" in said) == (name == "a")
        assert ("class" in said) == bool(words)


@pytest.mark.hole
def test_a_useless_model_predicts_with_a_warning(
    whole_run: Path, tmp_path: Path
) -> None:
    """The verdict counts for the parameters that it is of, in a folder or a file."""
    folder = Path(shutil.copytree(whole_run, tmp_path / "run"))
    summary = json.loads((folder / "summary.json").read_bytes())
    scores = {"accuracy": 0.5, "guessing": 0.6, "counts": {"a": 6, "b": 4}}
    scores |= {"auc": 0.5, "auc_interval": [0.2, 0.8]}
    bad, good = "not shown to be better than guessing", "better than guessing"
    file = folder / "model.safetensors"
    succeeds("experiments.predict", str(folder), f"--export={file}")
    np.save(tmp_path / "new.npy", digits().test_inputs[:3])
    for verdict, of, words in (
        (bad, summary["params_sha256"], f"{bad.capitalize()}: AUC 0.5"),
        (good, summary["params_sha256"], ""),
        (bad, "of another model", ""),
    ):
        changed = {"params_sha256": of, "test_scores": scores | {"verdict": verdict}}
        (folder / "summary.json").write_text(json.dumps(summary | changed))
        for place in (folder, file):
            line = ("experiments.predict", str(place), str(tmp_path / "new.npy"))
            ended = succeeds(*line)
            (folder / "predictions.csv").unlink()
            assert words in ended.stderr and bool(ended.stderr) == bool(words)
    (folder / "summary.json").write_text(json.dumps(summary | changed))
    assert run.load_model(folder).scores is None


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("-1", "-1"),
        ("+1.5e3", "+1.5e3"),
        ("no", "no"),
    ],
)
def test_no_class_is_a_formula_in_a_spreadsheet(name: str, written: str) -> None:
    assert predict._quoted(name) == written


def test_bad_input_ends_with_one_sentence(whole_run: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.npy"
    text.write_text("1, 2")
    for line, message in {
        (): "name a folder of a run, or a model file",
        (str(whole_run), str(text)): "it is not an .npy file of numbers",
        (str(whole_run), "new.csv"): "No such file",
        (
            str(whole_run),
            "a.csv",
            "--to=b.xlsx",
        ): "a .csv file (predictions are CSV), got b.x",
        (str(whole_run), f"--export={tmp_path}/model.pt"): "saved as .safetensors, got",
    }.items():
        assert_sentence(command("experiments.predict", *line), message)
