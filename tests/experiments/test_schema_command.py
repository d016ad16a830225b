"""From a CSV file to a proved model that predicts elsewhere, as a user types it."""

import csv
import dataclasses
import json
import pathlib
import re
import shlex

import numpy as np
import pytest
from commands import assert_sentence, command, succeeds
from small_runs import digits

from experiments import chosen, goal
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.tables.schema import as_read, from_toml
from fedsvp_jax.data.tables.table import from_table, listed_columns


def written(path: pathlib.Path) -> pathlib.Path:
    """A hospital's table: semicolons, decimal commas, blanks, dates, ids, hospitals."""
    rng = np.random.default_rng(0)
    rows = []
    for n in range(240):
        dose = rng.uniform(0, 10)
        ill = "krank" if dose + rng.normal() > 5 else "wohl"
        told = "" if n % 9 == 0 else f"{dose:.2f}".replace(".", ",")
        day = f"{1 + n % 28:02}.0{1 + n % 9}.2020"
        place = ("Zürich", "Bern", "Genf")[n % 3]
        rows.append([f"p{n}", place, told, ("a", "b")[n % 2], day, ill])
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["id", "hospital", "dose", "kind", "admitted", "ill"])
        writer.writerows(rows)
    return path


def noise_of(run: pathlib.Path) -> tuple[str, str, int]:
    config = json.loads((run / "config.json").read_text())
    names = ("noise_sampler", "total_accounting", "colluders")
    sampler, accounting, colluders = (config[name] for name in names)
    return sampler, accounting, colluders


def test_a_table_becomes_a_proved_model_that_predicts_elsewhere(
    tmp_path: pathlib.Path,
) -> None:
    data, schema = written(tmp_path / "data.csv"), tmp_path / "schema.toml"
    drafted = ("experiments.schema", str(data), f"--output={schema}")
    told = succeeds(*drafted, "--label_column=ill", "--thousands=.").stdout
    assert "client: hospital" in told and "id: a person, by" in told, told
    assert re.search(
        r"class: ill \((krank|wohl): 1\d\d, (krank|wohl): 1?\d\d\)", told
    ), told
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
    assert_sentence(
        refused, "4 of 5 marked columns may still say what the records said: change"
    )
    assert "dose" not in refused.stderr  # one sentence, whose list is above
    for line in (
        r"dose: bounds = \[0.0\d*, 9.9\d*\], fill = \d.* \(lower and upper .*\)",
        r'kind: values = \["a", "b", "\*"\]',
        r"admitted: bounds = \[2020-01-01, 2020-0\d-\d\d\] \(lower and upper .*\)",
        r'ill: classes = \["wohl", "krank"\]',
    ):
        assert re.search(rf"\n  {line}\n", refused.stdout), refused.stdout
    assert "# TODO: guessed, check it\n[client]" in schema.read_text()
    assert schema.read_text().count("\n# fill = …  # no cell was blank") == 1  # dates
    typed = command(*confirm, "--known=dosis,admitted,kind,ill")
    assert_sentence(typed, "a.toml lacks the column dosis (did you mean dose?); it")
    confirmed = succeeds(*confirm, "--known=dose,admitted,kind,ill").stdout
    assert "# TODO" not in schema.read_text()
    assert "no cell was blank" not in schema.read_text()  # which says it of all rows
    assert 'values = ["a", "b", "*"]' in confirmed
    assert 'classes = ["wohl", "krank"] (--known)' in confirmed
    assert "from_data" not in confirmed and '\n  id: type = "drop"\n' in confirmed
    assert re.search(r'dose: type = "number", bounds = \[0.0\d*, 9.9\d*\]', confirmed)
    lines = schema.read_text().split("\n")
    assert {one for one in lines if one.startswith("from_")} == {"from_data = false"}
    group = ("--attributes=column:kind", "--private_category=a")
    for options, setting in (
        (group, "attributes"),
        (("--mechanism=fedsva",), "mechanism=fedsva"),
        (("--clipping=attribute_records",), "clipping=attribute_records"),
    ):
        refused = command(*train, "--goal=proved", *options)
        assert_sentence(refused, f"hides every row, and --{setting} speaks of one")
    done = succeeds(*train, "--goal=proved")
    printed = " ".join(done.stdout.split())  # whose lines end at 98 characters
    assert "Against the server, which sees every upload: ε = " in printed
    assert "for one row used or left out (proved)" in printed
    assert "How far another draw moves them, for you alone: fedsvp sweep" in printed
    assert "Without any privacy, logistic regression on the pooled" in printed
    kept = json.loads((tmp_path / "run" / "reference.json").read_text())
    assert f"{kept['auc']:.3f} (95 %" in printed.split("Without any privacy")[1]
    assert np.all(np.array(kept["noise_and_rows"]) > np.array(kept["noise"]))
    assert len(kept["noise"]) > 3
    ranked = 100 * kept["alone"]["auc"][1]
    assert f"it ranks {ranked:.1f} % right" in printed.split("Each client's")[1]
    assert "Sites that keep their rows run the same route" in printed
    assert noise_of(tmp_path / "run") == ("discrete", "pld", 2)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    # The noise of 60 rounds would have asked for half of this rate.
    assert config["num_rounds"] == 4 and config["learning_rate"] >= 0.2
    other = [word.replace("/run", "/typed") for word in train]
    succeeds(*other, "--goal=proved", "--batch_size=5", "--colluders=1")
    assert noise_of(tmp_path / "typed") == ("gaussian", "pld", 1)
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
    assert (
        "column admitted: 1 of 2 cells are missing, and their"
        in succeeds(*predict).stdout
    )
    new.write_text("dose,kind,admitted\n5,a,2020-05-01\n,c,1.6.2020\n")
    (tmp_path / "out.csv").unlink()
    succeeds(*predict)
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert len(rows) == 2 and set(rows[0]) >= {"probability of krank"}


@pytest.mark.hole
def test_public_shares_are_confirmed_as_they_stand(tmp_path: pathlib.Path) -> None:
    """`shares` of a registry were "still what the records say"; no draft has any."""
    schema = tmp_path / "schema.toml"
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'ill'\nclasses = ['a', 'b']\n"
        "shares = [0.7, 0.3]\nfrom_data = true  # TODO\n[columns.dose]\n"
        "type = 'number'\nbounds = [0, 20]\n"
    )
    before = schema.read_text()
    confirm = ("experiments.schema", f"--confirm={schema}")
    refused = command(*confirm)
    assert_sentence(refused, "what the records said: change them, or")
    assert 'it\n  ill: classes = ["a", "b"]\nBy --known' in refused.stdout
    assert schema.read_text() == before
    assert "shares = [0.7, 0.3]" in succeeds(*confirm, "--known=ill").stdout
    again = succeeds(*confirm).stdout
    assert again == (
        f"{schema}: nothing is marked from_data; every entry is stated without the "
        "records, as it stands\n"
    )


@pytest.mark.hole
def test_columns_known_after_the_outcome_are_listed_in_one_line(
    tmp_path: pathlib.Path,
) -> None:
    """The day of death was a feature, and the model without use before it."""
    data = tmp_path / "data.csv"
    rows = [f"{n % 50},{n % 9 if n % 3 else ''},{n % 3 > 0}\n" for n in range(120)]
    data.write_text("age,day of death,died\n" + "".join(rows))
    line = "a feature must be known when the prediction is made: "
    draft = ("experiments.schema", str(data), f"--output={tmp_path}/")
    told = succeeds(*draft[:2], f"{draft[2]}a.toml").stdout
    assert f"\n{line}day of death?\n" in told, told
    told = succeeds(*draft[:2], f"{draft[2]}b.toml", "--columns=age").stdout
    assert f"{line[:-2]}, before the outcome\n" in told


@pytest.mark.hole
@pytest.mark.parametrize("name", ["time", "futime", "yrdth"])
def test_a_time_until_the_outcome_is_asked_of(
    name: str, tmp_path: pathlib.Path
) -> None:
    """The time to death or to the end of a study passed without a word."""
    data = tmp_path / "data.csv"
    rows = [f"{n % 50},{n % 41},{n % 3 > 0}\n" for n in range(120)]
    data.write_text(f"age,{name},died\n" + "".join(rows))
    told = succeeds("experiments.schema", str(data), f"--output={tmp_path}/a.toml")
    assert f"  {name}: a time or an end, by its name: known after" in told.stdout
    assert f"prediction is made: {name}?" in told.stdout


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


def test_flags_of_a_wide_table_share_a_line_and_a_bound_may_be_a_mark(
    tmp_path: pathlib.Path,
) -> None:
    """150 flags were 150 lines; bounds of -9 to 999 trained marks as values."""
    data, schema = tmp_path / "data.csv", tmp_path / "schema.toml"
    bits = np.random.default_rng(0).integers(0, 2, (200, 11))
    rows = [[*bits[n, :10], n % 7, bits[n, 10]] for n in range(200)]
    names = [*(f"icd{k}" for k in range(10)), "x", "ill"]
    lines = [",".join(map(str, row)) for row in [names, *rows]]
    data.write_text("\n".join(lines) + "\n")
    told = succeeds("experiments.schema", str(data), f"--output={schema}").stdout
    assert "icd8 …, 10 columns: binary: 0 or 1\n" in told and told.count("binary") == 1
    text = schema.read_text().replace("bounds = [0.0, 6.0]", "bounds = [-9, 999]")
    schema.write_text(text)
    told = succeeds("experiments.schema", f"--confirm={schema}", "--known=x,ill").stdout
    for mark in (-9, 999):
        assert (
            f'    {mark}: the mark of a missing cell? Then state missing = ["{mark}"'
            in told
        )


@pytest.mark.hole
def test_a_median_is_confirmed_as_bounds_are(tmp_path: pathlib.Path) -> None:
    """`fill = 4` of the records passed as stated without them, with its comments."""
    schema = tmp_path / "schema.toml"
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'ill'\nclasses = ['a', 'b']\n"
        "# TODO: 9 % of the cells are missing\n[columns.dose]\ntype = 'number'\n"
        "bounds = [0, 20]\nfill = 4\nfrom_data = [0.4, 10, 4]  # TODO\n"
    )
    confirm = ("experiments.schema", f"--confirm={schema}")
    refused = command(*confirm)
    assert_sentence(
        refused, "1 of 1 marked columns may still say what the records said:"
    )
    assert "it\n  dose: fill = 4.0\nBy --known" in refused.stdout
    succeeds(*confirm, "--known=dose")
    assert "TODO" not in schema.read_text() and "missing" not in schema.read_text()


AS_DRAFTED = """schema = 1
[label]
column = "ill"
classes = {classes}
from_data = ["a", "b"]  # TODO
[columns.dose]
type = "number"
bounds = {bounds}
{fill}
from_data = [0.4, 10, 4]  # TODO
[columns.kind]
{kind}
"""


def category(values: str, mark: str) -> str:
    return f'type = "category"\nvalues = {values}\nfrom_data = {mark}'


DRAFTED = {
    "classes": '["a", "b"]',
    "bounds": "[0.4, 10]",
    "fill": "fill = 4",
    "kind": 'type = "category"\nvalues = ["u", "v", "*"]\nfrom_data = ["u", "v", "*"]',
}


def known_of(stdout: str) -> str:
    """The list that a refusal ends with, as a shell passes it: it is no flag yet."""
    (known,) = shlex.split(stdout.splitlines()[-1])
    return f"--known={known}"


@pytest.mark.hole
def test_a_refusal_ends_with_names_that_can_be_copied(tmp_path: pathlib.Path) -> None:
    """Of 86 columns 84 were refused, and their names were to be typed one by one."""
    schema, name = tmp_path / "schema.toml", "the dose, in 'mg' $x"
    changes = {"fill": 'fill = 5\nmissing = ["-9"]'}
    text = AS_DRAFTED.format(**DRAFTED | changes)
    schema.write_text(text.replace("columns.dose", f'columns."{name}"'))
    confirm = ("experiments.schema", f"--confirm={schema}")
    known = known_of(command(*confirm).stdout)
    assert known == f"--known={name},{name}.missing,kind,ill"
    struck = command(*confirm, known.replace(",kind", ""))
    assert_sentence(struck, "1 of 3 marked columns may")
    again = known_of(struck.stdout)  # with those that were named already
    assert again == f"--known={name},{name}.missing,ill,kind"
    succeeds(*confirm, again)


@pytest.mark.hole
@pytest.mark.parametrize(
    ("changes", "as_read"),
    [
        ({}, ["dose: bounds = [0.4, 10.0], fill = 4.0", "kind: values", "ill: classe"]),
        ({"classes": '["b", "a"]'}, ["dose: bounds", "kind: values", "ill: classes"]),
        ({"classes": '["a", "b", "c"]'}, ["dose: bounds", "kind: values"]),
        ({"bounds": "[0, 20]"}, ["dose: fill = 4.0", "kind: values", "ill: classes"]),
        (  # within 1 % of the records' 10 and of their range
            {"bounds": "[0, 10.09]", "fill": ""},
            [
                "dose: bounds = [0.0, 10.09] (upper bound as in the records, [0.",
                "k",
                "ill",
            ],
        ),
        (
            {"bounds": "[0.403, 20]"},
            [
                "dose: bounds = [0.403, 20.0], fill = 4.0 (lower bound as in",
                "k",
                "ill",
            ],
        ),
        ({"bounds": "[0.49, 20]"}, ["dose: fill = 4.0", "kind", "ill"]),
        ({"bounds": "[0.3, 10.1]"}, ["dose: fill = 4.0", "kind", "ill"]),
        (
            {"bounds": "[0, 20]", "fill": "log = true"},
            ["dose: log = true\n", "kind", "ill"],
        ),
        (
            {"fill": "fill = 5"},
            [
                "dose: bounds = [0.4, 10.0] (lower and upper bound as in t",
                "kind",
                "ill: cla",
            ],
        ),
        ({"fill": "", "bounds": "[0, 9]"}, ["kind: values", "ill: classes"]),
        (  # a cell of the records, in a file that is called public
            {"bounds": "[0, 20]", "fill": 'missing = ["call 0795551234"]'},
            ['dose: missing = ["call 0795551234"]\n', "kind", "ill"],
        ),
        (  # some cell of the records had a sign, and none was blank
            {"bounds": "[0, 20]", "fill": "fill = 20\nlimits = true"},
            ["dose: limits = true\n", "kind", "ill"],
        ),
        ({"kind": DRAFTED["kind"].replace(', "*"', "", 1)}, ["dose", "kind", "ill"]),
        ({"kind": DRAFTED["kind"].replace('"v"', '"w"', 1)}, ["dose", "ill: classes"]),
        (
            {"kind": category('["1", "2", "3", "*"]', "[1, 3]")},
            ["dose", "kind: values", "ill: classes"],
        ),
        (
            {"kind": category('["1", "2", "4", "*"]', "[1, 3]")},
            ["dose", "ill: classes"],
        ),
        (
            {"kind": category('["No", "Yes"]', '["No", "Yes"]')},
            ["dose", "ill: classes"],
        ),
        ({"kind": 'type = "drop"\nfrom_data = true'}, ["dose", "ill: classes"]),
        (  # a number that the draft took for a category
            {"kind": 'type = "number"\nbounds = [0, 9]\nfrom_data = ["1 m", "*"]'},
            ["dose", "ill: classes"],
        ),
    ],
)
def test_what_the_user_changed_is_confirmed_and_what_is_as_read_is_listed(
    changes: dict[str, str], as_read: list[str], tmp_path: pathlib.Path
) -> None:
    """A fill or categories were refused however they had been changed."""
    schema = tmp_path / "schema.toml"
    schema.write_text(AS_DRAFTED.format(**DRAFTED | changes))
    refused = command("experiments.schema", f"--confirm={schema}")
    listed = refused.stdout.split("\n  ")[1:]
    listed[-1], _, last = listed[-1].partition("\nBy --known=")
    assert "Categories that are right as they stand, and texts" in last
    assert len(refused.stderr) < 250 + len(str(schema))
    assert len(listed) == len(as_read), refused.stdout
    for line, start in zip(listed, as_read, strict=True):
        assert f"{line}\n".startswith(start), refused.stdout
    confirm = ("experiments.schema", f"--confirm={schema}", known_of(refused.stdout))
    stated = succeeds(*confirm).stdout
    assert "(--known: entries that equal the records'; keep this list secret)" in stated
    assert stated.count("(--known)") == len(as_read) and stated.count("\n") == 4
    assert not from_toml(schema.read_text(), "s").from_records


@pytest.mark.hole
@pytest.mark.parametrize("mark", ["[-9, 999]", "true"])
def test_a_fill_where_the_draft_has_none_is_no_entry_of_the_records(
    mark: str, tmp_path: pathlib.Path
) -> None:
    """150, 200 and 350 were refused alike in a column that the draft had left out."""
    schema = tmp_path / "schema.toml"
    text = AS_DRAFTED.format(**DRAFTED | {"bounds": "[50, 500]"})
    text = text.replace("fill = 4", 'fill = 350\nmissing = ["-9"]')
    schema.write_text(text.replace("[0.4, 10, 4]", mark))
    confirm = ("experiments.schema", f"--confirm={schema}")
    refused = command(*confirm, "--known=kind,ill").stdout
    assert 'suggested them\n  dose: missing = ["-9"]\nBy --known' in refused
    stated = succeeds(*confirm, "--known=kind,ill,dose.missing").stdout
    assert "bounds = [50.0, 500.0], fill = 350.0, missing" in stated


@pytest.mark.hole
@pytest.mark.parametrize(
    ("classes", "shares", "passes"),
    [
        ("01", (982 / 1495, 513 / 1495), False),  # as the records of medpar have them
        ("10", (513 / 1495, 982 / 1495), False),
        ("01", (0.657, 0.343), False),
        ("01", (0.655, 0.345), False),  # within 1 % of both
        ("01", (0.66, 0.34), True),
        ("01", (0.648, 0.352), True),
    ],
)
def test_shares_of_the_records_are_no_shares_of_a_registry(
    classes: str, shares: tuple[float, float], passes: bool, tmp_path: pathlib.Path
) -> None:
    """Exact shares were "stated without the records", and the model told the deaths."""
    data, schema = tmp_path / "data.csv", tmp_path / "schema.toml"
    rows = [f"{n % 2},{int(n >= 982)}\n" for n in range(1495)]
    data.write_text("hmo,died\n" + "".join(rows))
    succeeds("experiments.schema", str(data), f"--output={schema}")
    drafted = schema.read_text()
    assert '\nfrom_data = ["0", "1", 0.657, 0.343]  # TODO\n' in drafted
    listed = f'classes = ["{classes[0]}", "{classes[1]}"]\nshares = {[*shares]}'
    text = drafted.replace('classes = ["0", "1"]', listed)
    schema.write_text(text)
    confirm = ("experiments.schema", f"--confirm={schema}")
    if not passes:
        refused = command(*confirm, "--known=died")
        assert_sentence(refused, "1 of 2 marked columns may still say what the records")
        line = f"  died: shares = {[*shares]} (two decimals are accepted)\nBy --known"
        assert line in refused.stdout
        assert refused.stdout.endswith("\ndied,died.shares\n")
        assert schema.read_text() == text
    named = [] if passes else ["--known=died.shares"]
    stated = succeeds(*confirm, *named).stdout
    assert stated.count("(--known)") == (not passes)
    assert "0.657" not in schema.read_text() or 0.657 in shares


@pytest.mark.hole
def test_a_common_class_is_near_in_the_share_of_all_others_alone() -> None:
    """0.972 is within 1 % of 0.968, but 28 of 1,000 are no 32."""
    text = (
        "schema = 1\n[label]\ncolumn = 'died'\nclasses = ['0', '1']\nshares = "
        "[0.972, 0.028]\nfrom_data = ['0', '1', 0.968, 0.032]\n"
    )
    assert not as_read(from_toml(text, "s.toml"), "died")
    near = from_toml(text.replace("0.028", "0.03201"), "s.toml")
    assert as_read(near, "died") == {"shares": "True"}


@pytest.mark.hole
def test_texts_that_count_as_missing_are_named_apart_from_their_column(
    tmp_path: pathlib.Path,
) -> None:
    """--known=dose, of a bound that a form says, passed a text of the records too."""
    schema = tmp_path / "schema.toml"
    changes = {"fill": 'fill = 5\nmissing = ["-9"]', "classes": '["c", "d"]'}
    schema.write_text(AS_DRAFTED.format(**DRAFTED | changes))
    before = schema.read_text()
    confirm = ("experiments.schema", f"--confirm={schema}")
    for known, left in {
        "dose,kind": 'dose: missing = ["-9"]',
        "dose.missing,kind": "dose: bounds = [0.4, 10.0] (lower and upper bound as in "
        "the records)",
        "dose,dose.missing": 'kind: values = ["u", "v", "*"]',
    }.items():
        refused = command(*confirm, f"--known={known}")
        assert_sentence(refused, "or --known=NAME if no record told you")
        assert f"\n  {left}\nBy --known" in refused.stdout
        reason = "marks\nof missing cells are listed, too: the file does not show"
        assert (reason in refused.stdout) == ("missing" in left)
        assert schema.read_text() == before
    typed = command(*confirm, "--known=dose.mising")
    assert_sentence(typed, "dose.mising (did you mean dose.missing?)")
    stated = succeeds(*confirm, "--known=dose.bounds,dose.missing,kind.values").stdout
    assert stated.count("(--known)") == 2


@pytest.mark.hole
def test_a_mark_over_several_lines_leaves_the_file_as_it_was(
    tmp_path: pathlib.Path,
) -> None:
    schema = tmp_path / "schema.toml"
    text = AS_DRAFTED.format(**DRAFTED | {"bounds": "[0, 9]", "fill": ""})
    schema.write_text(text.replace("[0.4, 10, 4]", "[\n0.4, 10, 4]"))
    before = schema.read_bytes()
    command("experiments.schema", f"--confirm={schema}", "--known=kind,ill")
    assert schema.read_bytes() == before


@pytest.mark.hole
@pytest.mark.parametrize(
    ("bounds", "mark", "warns"),
    [
        ("[0.5, 30.5]", "", True),
        ("[0.5, 30.5]", "from_data = false", False),
        ("[0, 40]", "", False),
        ("[0.5, 40]", "", False),
        ("[0.25, 30.75]", "", True),  # within 1 % of their range
        ("[0, 30.5]", "", False),
        ("[0.5, 20]", "", False),
    ],
)
def test_bounds_that_are_the_rows_extremes_are_said_where_a_mark_is_gone(
    bounds: str, mark: str, warns: bool, recwarn: pytest.WarningsRecorder
) -> None:
    """A line from_data was deleted by hand, and the claims were proved."""
    text = (
        "schema = 1\n[label]\ncolumn = 'y'\nclasses = ['a', 'b']\n[columns.score]\n"
        "type = 'number'\nbounds = [0, 10]\n[columns.x]\ntype = 'number'\n"
        f"bounds = {bounds}\n{mark}\n"
    )
    table = {
        "x": [n % 31 + 0.5 for n in range(62)],
        "score": [n % 11 for n in range(62)],
        "y": ["ab"[n % 2] for n in range(62)],
    }
    assert not from_table(table, schema=from_toml(text, "s.toml")).from_records
    messages = [str(one.message) for one in recwarn.list]
    assert len(messages) == warns and all("bounds of x are" in m for m in messages)


@pytest.mark.hole
def test_notes_of_a_wide_table_are_joined(tmp_path: pathlib.Path) -> None:
    """80 lines said how many cells are missing, and none that a column is left out."""
    data, schema = tmp_path / "data.csv", tmp_path / "schema.toml"
    header = "key,id2,id3," + "".join(f"q{n}," for n in range(9)) + "ill\n"
    rows = [
        f"{10000 + 37 * row},A{row:04},B{row:04},"
        + "".join(f"{(row * 7 + n) % 50 if row % 40 > n else ''}," for n in range(9))
        + f"{'ab'[row % 2]}\n"
        for row in range(120)
    ]
    data.write_text(header + "".join(rows))
    told = succeeds("experiments.schema", str(data), f"--output={schema}").stdout
    names = ", ".join(f"q{n}" for n in range(9))
    assert f"\n  cells are missing in 9 columns, 2.5 to 22 %: {names}\n" in told, told
    assert "\n  left out: key: 5 digits in every row: a code?\n" in told
    assert re.search(r"\n  left out: id2, id3: a value of its own in every row", told)
    assert schema.read_text().count("% of the cells are missing") == 9


@pytest.mark.hole
def test_a_wrong_file_or_column_is_said_before_the_schema_that_is_there(
    tmp_path: pathlib.Path,
) -> None:
    data, schema = written(tmp_path / "data.csv"), tmp_path / "schema.toml"
    schema.write_text("")
    draft = ("experiments.schema", f"--output={schema}", "--label_column=ill")
    assert_sentence(command(*draft, str(tmp_path / "dat.csv")), "No such file")
    wrong = command(*draft, str(data), "--client_column=hospitl")
    assert_sentence(wrong, "(did you mean hospital?)")
    assert_sentence(command(*draft, str(data)), "schema.toml exists; name another")
    told = succeeds(*draft, str(data), f"--output={tmp_path / 'new.toml'}").stdout
    assert "for plan and train: shares = […, …]; then\n  fedsvp schema --conf" in told


def test_the_names_of_rows_are_no_list_of_features(tmp_path: pathlib.Path) -> None:
    data, schema = tmp_path / "data.csv", tmp_path / "schema.toml"
    rows = [f"{n},{n % 40},{'ab'[n % 2]}" for n in range(60)]
    data.write_text("\n".join([",age,ill", *rows]))
    succeeds("experiments.schema", str(data), f"--output={schema}")
    drafted = from_toml(schema.read_text(), "schema.toml")
    assert {name: c.type for name, c in drafted.columns.items()} == {"age": "number"}
    for listed, names in {
        "": [],
        "age": ["age"],
        " 'comment, free' ,age": ["comment, free", "age"],
        "comment, free": ["comment, free"],
        "ages,comment": ["ages", "comment"],
    }.items():
        assert listed_columns(listed, ["", "age", "comment, free"]) == names
        assert listed_columns(listed, []) == [
            part.strip("' ") for part in listed.split(",") if part
        ]


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


@pytest.mark.hole
def test_a_table_that_is_trained_without_a_goal_is_told_of_it() -> None:
    """`train` chose a private class, δ = .1, and named no other way."""
    table = {"x": range(60), "y": ["ab"[n % 2] for n in range(60)]}
    data = from_table(table, label="y")
    config = resolve(ExperimentConfig(dataset="csv", num_clients=3), dataset=data)
    hint = "fedsvp train --goal=proved --schema=FILE --total_epsilon=3"
    assert hint in chosen.text(config, (), data)
    single = dataclasses.replace(config, num_attributes=1)
    assert hint not in chosen.text(single, (), data)


def test_classes_in_two_codes_and_the_event_are_said_at_once(
    tmp_path: pathlib.Path,
) -> None:
    """Four classes of nein, N, ja and J were drafted without a word."""
    data = tmp_path / "a.csv"
    for words, line in (
        ("ja nein J N", "4 CLASSES ARE DRAFTED, AND A MODEL WOULD LEARN ALL OF THEM"),
        ("ja nein ja nein", "classes nein, ja: the second is the event of odds ratios"),
    ):
        rows = [f"{n % 17},{words.split()[n % 4]}" for n in range(80)]
        data.write_text("\n".join(["x,tot", *rows]))
        target = tmp_path / f"{line[:1]}.toml"
        draft = ("experiments.schema", str(data), f"--output={target}")
        printed = succeeds(*draft, "--label_column=tot").stdout
        assert f"\n  {line}" in printed
        assert ("CLASSES" in printed) == ("J" in words)


@pytest.mark.hole
def test_confirmed_schemas_tell_nothing_of_columns_that_are_left_out(
    tmp_path: pathlib.Path,
) -> None:
    """Their extremes and categories stayed in the file that sites send."""
    schema = tmp_path / "s.toml"
    schema.write_text(
        'schema = 1\n[label]\ncolumn = "ill"\nclasses = ["no", "yes"]\n'
        'from_data = ["no", "yes", 0.61, 0.39]\n\n[columns.days]\ntype = "drop"\n'
        "bounds = [0, 5215]\nfill = 17\nfrom_data = [0.0, 5215.0, 17.0]\n\n"
        '# from the form\n[columns.age]\ntype = "number"\nbounds = [0, 120]\n'
        "from_data = [18.0, 97.0, 50.0]\n"
        "# fill = …  # no cell was blank; without a fill a blank one is refused\n\n"
        '[ columns . cost ]\n"type" = "drop"\nbounds = [0, 8080]\n\n'
        '[columns."cause of death"]\n'
        'values = [\n  "sepsis",\n  "stroke",\n]\ntype = \'drop\'\n'
        'from_data = ["sepsis", "stroke"]'
    )
    succeeds("experiments.schema", f"--confirm={schema}", "--known=ill")
    text = schema.read_text()
    for secret in ("5215", "17", "sepsis", "stroke", "97", "no cell", "8080"):
        assert secret not in text, text
    read = from_toml(text, str(schema))
    assert list(read.features) == ["age"] and read.from_records == ()
    assert read.columns["age"].bounds == (0, 120) and "# from the form\n[" in text
