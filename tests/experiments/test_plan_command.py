"""`experiments.plan`: what ε bounds, and synthetic rows of the schema's shape."""

import copy
import dataclasses
import json
import pathlib
import re
import types
from typing import Any

import numpy as np
import pytest
from absl import flags
from commands import assert_sentence, command, succeeds

from experiments import goal, messages, plan
from fedsvp_jax import federation
from fedsvp_jax.accounting import views
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.tables import cells, table
from fedsvp_jax.data.tables.cells import Columns
from fedsvp_jax.data.tables.schema import Schema, SchemaColumn, to_toml
from fedsvp_jax.deploy import make_policy
from fedsvp_jax.report import guarantees, headline

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


def of_sizes(*sizes: int) -> Any:
    """`plan.divided` data of clients of so many training rows."""
    rows = {"w": np.repeat(np.arange(len(sizes)), sizes)}
    rows["split"] = np.array(["train"] * sum(sizes))
    extra = {"w": np.array([0]), "split": np.array(["test"])}
    rows = {name: np.append(rows[name], extra[name]) for name in rows}
    return plan.divided(dataclasses.replace(SCHEMA, client="w"), rows, None, "t")


def test_synthetic_rows_have_the_schemas_shape_and_the_clients_sizes() -> None:
    data = plan.synthetic(SCHEMA, of_sizes(5, 9), seed=1, auc=0.8)
    assert data.train_inputs.shape == (14, 4) and data.num_classes == 2
    assert np.bincount(data.train_writers).tolist() == [5, 9]
    assert np.all(data.train_inputs[:, 1:].sum(1) == 1)
    assert data.test_labels.mean() == pytest.approx(0.2, abs=0.04)


@pytest.mark.hole
@pytest.mark.parametrize("auc", [0.65, 0.9])
def test_synthetic_classes_have_the_stated_shares_and_auc(auc: float) -> None:
    """By counting pairs, with a score that is the true one: the mean over draws."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(20_000, 2))
    logits = plan.logits_of(scores, (0.8, 0.2), auc)
    chance = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    labels = rng.random(len(chance)) < chance
    assert labels.mean() == pytest.approx(0.2, abs=0.02)
    pairs = rng.choice(chance[labels], 40_000) > rng.choice(chance[~labels], 40_000)
    assert pairs.mean() == pytest.approx(auc, abs=0.02)


def test_a_class_that_is_too_rare_to_be_drawn_is_planned() -> None:
    scores = np.random.default_rng(0).normal(size=(2000, 2))
    assert np.isfinite(plan.logits_of(scores, (0.9999, 0.0001), 0.8)).all()


@pytest.mark.filterwarnings("ignore:.*rows are left out")
def test_synthetic_persons_have_the_rows_that_are_kept_of_those_in_the_table() -> None:
    schema = dataclasses.replace(
        SCHEMA, client="ward", person="who", unit="person", rows_per_person=2
    )
    whose = np.repeat(list("abcdefghij"), [5, 1, 1, 2, 3, 1, 4, 1, 1, 1])
    wards = np.where(whose < "f", "one", "two")
    divided = plan.divided(schema, {"who": whose, "ward": wards}, None, "t")
    data = plan.synthetic(schema, divided, 1, 0.8)
    assert data.rows_per_person == 2 and len(data.test_labels) == 2000
    assert len(data.train_labels) + len(divided.test_labels) == 14
    for code in (0, 1):
        mine = data.train_persons[data.train_writers == code]
        all_rows = np.bincount(np.unique(whose, return_inverse=True)[1])
        assert (
            np.bincount(mine)[mine].tolist() == np.minimum(all_rows, 2)[mine].tolist()
        )


@pytest.mark.hole
@pytest.mark.filterwarnings("ignore:.*(rows are left out|column who repeat)")
@pytest.mark.parametrize("unit", ["row", "person", "client"])
def test_the_rows_of_a_plan_are_those_that_a_training_has(unit: str) -> None:
    """It said 2 to 74 rows and 301 for the test, and `train` 1 to 78 and 299."""
    rng = np.random.default_rng(4)
    columns = {"age": rng.integers(0, 9, 200), "ill": rng.choice(["no", "yes"], 200)}
    columns["who"] = np.array([f"p{n // 2}" for n in range(200)])
    columns["ward"] = np.array(
        [f"ward{min(n // 2, 90) ** 0.6:.0f}" for n in range(200)]
    )
    columns["ward"][[0, 1]], columns["ward"][2] = "alone", "single"
    columns["who"][2] = "somebody"
    schema = Schema(
        {"age": SCHEMA.columns["age"]},
        "ill",
        ("no", "yes"),
        (0.5, 0.5),
        client="ward",
        unit=unit,
        person="who" if unit == "person" else None,
        rows_per_person=1,
    )
    drop = [] if unit == "person" else ["who"]
    data = table.from_table(columns, schema=schema, drop=drop)
    for name in ("age", *drop):
        del columns[name]
    planned = plan.divided(schema, columns, None, "t")
    sizes = goal.training_sizes(planned, 1, by_writer=True)
    for name in ("train_writers", "train_persons", "test_writers"):
        np.testing.assert_array_equal(getattr(planned, name), getattr(data, name))
    assert len(planned.test_labels) == len(data.test_labels)
    config = ExperimentConfig(dataset="csv", total_epsilon=3.0)
    route = goal.route_settings(config, data)
    config = resolve(ExperimentConfig(**{**vars(config), **route}), data)
    trained = federation.build([config], data).data.num_train[0]
    assert sorted(trained) == sorted(sizes)
    assert trained.sum() == len(data.train_labels)


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
    assert_sentence(command(*line), "a.csv lacks the column ward; it has x, y")
    line = (*line, "--client_column=none")
    short = ("--total_epsilon=9", "--num_seeds=2", "--auc=.9")
    done = succeeds(*line, *short, f"--output_dir={out}")
    assert "made-up rows of AUC 0.9: trust and ε 1 of 1" in done.stderr
    printed = " ".join(done.stdout.split())  # whose lines end at 98 characters
    assert "1 client of 48 training rows, 48 in all; 12 rows for" in printed
    first, details = done.stdout.split("In brackets: guesses about one row")
    assert first.startswith("Take ε = 9 (one holder of all rows), because it is the")
    assert "on made-up rows" in first.partition("\n\n")[0]  # and so it says
    assert "\n  AUC 0.9: one holder of all rows 9\n\n" in first
    assert "secure summation" not in printed  # of one holder there is no sum
    assert "Noise, clipping and 60 steps cost this much AUC in the mean" in printed
    assert "ε = 9 (" in first and "AUC if the best is 0.9" in " ".join(details.split())
    assert first.split("─")[-1].split()[-4:] == ["rows", "0.9", "or", "less"]
    assert "Every ε is proved at δ = 1e-05; what may change: one row used or left" in (
        printed
    )
    assert {"holder", "9", "inf", "privacy"} <= {*details.split()}
    document = json.loads((out / "epsilon.json").read_text())
    # It was .644 of synthetic rows, beside .66 of the schema and .635 of the run.
    assert document["guessing"] == 0.5 and document["test_rows"] is None
    assert "accuracy 0.5 by the schema" in printed
    (point,) = document["points"]
    assert point["epsilon"] == 9 and point["uploads_left"] == 0
    assert point["accuracy"]["seeds"] == 2 and point["accuracy"]["mean"] is None
    assert document["reference"]["name"] == "logistic regression without privacy"
    page = (out / "epsilon.html").read_text()
    assert "None" not in page.split("<noscript>")[1].split("<script")[0]
    assert {claim["status"] for claim in point["guarantees"]} == {"proved"}
    assert "on synthetic rows whose columns" in (out / "epsilon.html").read_text()
    zero = command(*line, "--total_epsilon=0")
    assert_sentence(zero, "total_epsilon must be greater than 0")


@pytest.mark.hole
@pytest.mark.parametrize("written", ['{"data": "other"}', "{}"])
def test_the_page_of_another_tables_plan_is_not_overwritten(
    written: str, tmp_path: pathlib.Path
) -> None:
    """The numbers of one table stood in the other's place, without a word."""
    data, schema = tmp_path / "a.csv", tmp_path / "a.toml"
    data.write_text("x,y\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(60)))
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'y'\nclasses = ['a', 'b']\nshares = [0.5, 0.5]\n"
        "[columns.x]\ntype = 'number'\nbounds = [0, 60]\n"
    )
    (tmp_path / "epsilon.json").write_text(written)
    line = ("experiments.plan", str(data), f"--schema={schema}")
    refused = command(*line, f"--output_dir={tmp_path}")
    assert_sentence(
        refused, "epsilon.json is of another table: name a new --output_dir"
    )
    assert (tmp_path / "epsilon.json").read_text() == written


def test_a_plan_needs_stated_shares(tmp_path: pathlib.Path) -> None:
    data, schema = tmp_path / "a.csv", tmp_path / "a.toml"
    data.write_text("x,y\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(60)))
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'y'\nclasses = ['a', 'b']\n"
        "[columns.x]\ntype = 'number'\nbounds = [0, 60]\n"
    )
    line = ("experiments.plan", str(data), f"--schema={schema}")
    assert_sentence(command(*line), "states no shares of the classes: add shares")


def test_a_row_without_a_client_is_refused_as_by_train(tmp_path: pathlib.Path) -> None:
    """A blank counted as one more hospital, for a minute, and `train` then refused."""
    data, schema = tmp_path / "a.csv", tmp_path / "a.toml"
    data.write_text("x,y,h\n" + "".join(f"{n},{'ab'[n % 2]},u\n" for n in range(60)))
    with data.open("a") as file:
        file.write("3,a,\n")
    schema.write_text(
        "schema = 1\n[label]\ncolumn = 'y'\nclasses = ['a', 'b']\nshares = [0.5, 0.5]\n"
        "[client]\ncolumn = 'h'\n[columns.x]\ntype = 'number'\nbounds = [0, 60]\n"
    )
    refused = command("experiments.plan", str(data), f"--schema={schema}")
    assert_sentence(refused, "column h names no client ('' in row 61")


def swept(data: Any, trust: str, epsilon: float, num_clients: int) -> Any:
    area = {"nobody": 0.55, "trusted_server": 0.8}.get(trust, 0.78)
    log_loss = 0.51 if trust == "secure_aggregation" else 0.4
    found = {"log_loss": log_loss, "guessing_log_loss": 0.5}
    trained = [found | {"auc": area}, found | {"auc": area}]
    value = {"mean": 0.7, "lower": 0.6, "upper": 0.8, "trained": trained}
    claim = {"adversary": "server", "right": 50, "status": "proved"}
    claim |= {"delta": 1e-5, "relation": "replace one record of a client"}
    point = {"accuracy": value, "epsilon": epsilon, "adversary": "server"}
    observer = {"adversary": "outside observer of the final model"}
    point |= {"guarantees": [claim, observer], "mechanism": "Gaussian"}
    point |= {"rounds": 60, "noise": 0.125}
    return {"points": [point]}


@pytest.mark.hole
def test_a_plan_without_a_table_is_of_stated_numbers_of_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """A coordinator who has no rows could plan nothing."""
    (tmp_path / "a.toml").write_text(
        to_toml(dataclasses.replace(SCHEMA, client="ward", person="who"))
    )
    seen: list[Any] = []

    def noted(data: Any, *rest: Any) -> Any:
        seen.append(data)
        return swept(data, *rest)

    monkeypatch.setattr(plan, "_swept", noted)
    write = "fedsvp_jax.report.epsilon_page.write_epsilon_page"
    monkeypatch.setattr(write, lambda *_: [])
    stated = ["--num_clients=4", "--num_examples=400", "--max_num_examples=161"]
    line = ["plan", f"--schema={tmp_path}/a.toml", "--auc=.8", "--total_epsilon=3"]
    flags.FLAGS.unparse_flags()
    arguments = flags.FLAGS([*line, *stated])
    values = flags.FLAGS.flag_values_dict() | {"output_dir": tmp_path}
    stated_flags = types.SimpleNamespace(FLAGS=types.SimpleNamespace(**values))
    monkeypatch.setattr(plan, "flags", stated_flags)
    plan.main(arguments)
    sizes = np.bincount(seen[0].train_writers)
    assert sizes.tolist() == [161, 80, 80, 79] and seen[0].rows_per_person == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "4 clients of 79 to 161 training rows, 400 in all; 100 rows for" in told
    assert re.search(r"rounds noise .* 60 0\.125 ", told), told
    assert "No table was read." in told and "no plan knows what your columns" in told


@pytest.mark.hole
@pytest.mark.filterwarnings("ignore:.*ids of persons")
@pytest.mark.filterwarnings("ignore:.* in another order")
def test_a_plan_and_a_training_ignore_the_same_columns() -> None:
    """A plan took what `train` refused and `site join` ignored: all ignore it now."""
    rows = {name: np.arange(60) % 2 for name in ("age", "ill", "ID", "ward")}
    schema = dataclasses.replace(
        SCHEMA, classes=("0", "1"), columns={"age": SCHEMA.columns["age"]}, client="w"
    )
    for client, ignored in {"none": "ID, ward", "ward": "ID"}.items():
        sentence = f"t: columns that the schema does not name are ignored: {ignored}$"
        with pytest.warns(UserWarning, match=sentence):
            table.from_table(rows, schema=schema, client=client, name="t")
        with pytest.warns(UserWarning, match=sentence):
            plan.divided(schema, rows, client, "t")
    names = ("age", "ill", "ward")
    listed = Columns({name: cells.column_of(rows[name], name) for name in names})
    listed[""] = cells.column_of(range(60), "")  # the names of rows
    assert len(plan.divided(schema, listed, "ward", "t").writer_names) == 2


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ((), "name one table, or state --num_clients and --num_examples in its place"),
        (("a.csv", "--num_examples=9"), "name one table, or state --num_clients and"),
        (("--num_examples=9", "--max_num_examples=10"), "must be those of all 1 sites"),
        (("--num_examples=9", "--client_column=h"), "client_column is a table's: name"),
    ],
)
def test_stated_numbers_that_fit_nothing_are_one_sentence(
    line: tuple[str, ...], sentence: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "a.toml").write_text(to_toml(SCHEMA))
    refused = command("experiments.plan", f"--schema={tmp_path}/a.toml", *line)
    assert_sentence(refused, sentence)


@pytest.mark.hole
def test_the_noise_of_a_plan_is_that_of_the_mean_by_whom_is_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K equal clients: each adds all, √K of the server's; with h away √(K/(K − h))."""
    point: Any = {"points": [{"accuracy": {}}]}
    monkeypatch.setattr("fedsvp_jax.run.sweep.sweep", lambda *_, **__: None)
    empty = type("Swept", (), {"cells": []})
    monkeypatch.setattr("fedsvp_jax.report.read.read_sweep", lambda _: empty)
    monkeypatch.setattr(
        "fedsvp_jax.report.epsilon_page.document",
        lambda *_, **__: copy.deepcopy(point),
    )
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["plan", "--schema=a.toml"])
    data = plan.synthetic(SCHEMA, of_sizes(30, 30, 30, 30), 1, 0.8)
    nobody, sums, server = (
        plan._swept(data, trust, 3.0, 4)["points"][0]["noise"] for trust in plan._LABELS
    )
    assert nobody / server == pytest.approx(2) and nobody > sums
    assert sums / server == pytest.approx(np.sqrt(4 / 2))


@pytest.mark.hole
def test_kinds_of_trust_stand_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    monkeypatch.setattr(plan, "_swept", swept)
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["plan", "--schema=a.toml"])
    document = plan._planned(plan.synthetic(SCHEMA, of_sizes(9, 90), 1, 0.8), (3.0,), 2)
    counts = np.array([190, 109])
    (one,) = plan._planned(plan.synthetic(SCHEMA, of_sizes(99), 1, 0.8), (3.0,), 1)[
        "points"
    ]
    assert one["mechanism"] == "one holder of all rows"  # where there is no server
    assert {row["adversary"] for row in one["guarantees"]} == {
        "whoever sees the models"
    }
    document = plan._joined([document, document], (0.8,), counts)
    kinds = [point["mechanism"] for point in document["points"]]
    assert kinds == ["server sees each upload", "secure aggregation", "trusted server"]
    points = [point["accuracy"] for point in document["points"]]
    models = [accuracy["worth"] for accuracy in points]
    better = "better than guessing"
    assert models[0] == f"not shown to be {better}" and models[2] == better
    assert models[1] == f"ranks {better}, its probabilities are worse"
    document["points"][0]["guarantees"][0]["right"] = 40  # a column is of the most
    told = messages.filled(
        "plan.txt",
        **{"sizes": np.array([9, 90]), "tested": 299, "stated": False},
        document=document | {"guessing": 0.8},
        schema=types.SimpleNamespace(from_records=(), bounds_epsilon=2.0, unit="row"),
        better=better,
    )
    first = told.split("In brackets:")[0]  # what decides, before any range
    cells = ("above 0.8", models[1], "0.8 or less")
    for kind, cell in zip(kinds, cells, strict=True):
        assert re.search(rf"{kind} +{re.escape(cell)}\n", first), first
    assert "ε = 3 (50 of 100)" in first
    told = " ".join(told.split())
    assert "Every ε is proved at δ = 1e-05; what may change: replace one record" in told
    assert "Each counts the bounds that --bounds_epsilon bought: ε = 2." in told
    # Cells of the table, whose words are broken into lines. Hanley and McNeil's by root
    # finding: .7391 to .8492, on a grid.
    for cells in ("0.483 to 0.617", "0.740 to 0.849", "inf"):
        assert cells in told
    assert document["points"][0]["accuracy"]["tried"] == [[0.55, 0.55]] * 2
    (pooled,) = document["points"][2]["guarantees"]
    assert pooled["adversary"] == "whoever sees the models"


@pytest.mark.hole
def test_who_colludes_and_who_is_trusted_is_as_train_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan was for one colluder, where a federation is proposed for a third."""
    swept: list[Any] = []

    def stop(config: Any, *_: Any, **__: Any) -> None:
        swept.append(config)
        raise InterruptedError

    monkeypatch.setattr("fedsvp_jax.run.sweep.sweep", stop)
    data = plan.synthetic(SCHEMA, of_sizes(30, 30, 30, 30), 1, 0.8)
    line = ["plan", "--schema=a.toml", "--noise_trust=secure_aggregation"]
    for typed in (["--colluders=1"], []):  # a third, of four or fewer two
        flags.FLAGS.unparse_flags()
        flags.FLAGS([*line, *typed])
        with pytest.raises(InterruptedError):
            plan._planned(data, (3.0,), 4)
    trusts = [(config.noise_trust, config.colluders) for config in swept]
    assert trusts == [("secure_aggregation", 1), ("secure_aggregation", 2)]
    # Noise √(K/(K − h)), which the learning rate follows: 4/3 and 4/2.
    slowed = (swept[0].learning_rate / swept[1].learning_rate) ** 2
    assert slowed == pytest.approx(3 / 2, rel=1e-6)


@pytest.mark.hole
def test_a_plan_counts_the_guesses_that_real_sites_promise() -> None:
    """It said 65 of 100, and `site join` 96: the sites' noise is in whole numbers."""
    data = plan.synthetic(SCHEMA, of_sizes(30, 30, 30, 30), 1, 0.8)
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["plan", "--schema=a.toml", "--num_seeds=1"])
    for epsilon in (1.0, 3.0):
        (point,) = plan._swept(data, "secure_aggregation", epsilon, 4)["points"]
        terms = {"total_epsilon": epsilon, "target_delta": 1e-5, "adversary": "A"}
        terms |= {"total_accounting": "pld", "release_epsilon": 0.0, "relation": "R"}
        terms |= {"assumptions": "equal weights", "status": "proved"}
        (of_site, *_) = guarantees.strongest([guarantees.promised(terms, "proved")])
        right = {row["adversary"]: row["right"] for row in point["guarantees"]}
        assert right[point["adversary"]] == of_site["right"]


@pytest.mark.hole
def test_a_plan_counts_bought_bounds_in_the_guesses() -> None:
    """It said 70 of 100, and `train` 92: bounds tell more than their ε of noise."""
    schema = dataclasses.replace(SCHEMA, bounds_epsilon=2.8, bounds_draws=2)
    data = plan.synthetic(schema, of_sizes(60), 1, 0.8)
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["plan", "--schema=a.toml", "--num_seeds=1"])
    (point,) = plan._swept(data, "nobody", 3.0, 1)["points"]
    odds = np.exp(2.8 / 2)  # of two draws, each told by a randomised response
    alone = 50 + 50 * (odds**2 - 1) / (odds + 1) ** 2
    assert all(row["right"] >= alone for row in point["guarantees"])


@pytest.mark.hole
@pytest.mark.parametrize("rows", [30, 5000])
def test_the_page_of_a_plan_speaks_of_what_the_goal_would_run(rows: int) -> None:
    """It said "proved, if the seed stays secret", and that rounding is not counted."""
    data = plan.synthetic(SCHEMA, of_sizes(rows, 30, 30), 1, 0.8)
    base = ExperimentConfig(
        dataset="csv", num_clients=3, total_epsilon=3.0, colluders=1
    )
    texts = plan._assumptions(base, data, rows == 30)
    assert ("outside observer of the final model", 1) in texts
    for text in texts.values():
        assert "seed stays secret" not in text and "nobody guesses the noise's" in text
        assert ("whole numbers of a grid" in text) == (rows == 30)
        assert ("counted as real numbers" in text) == (rows == 5000)


@pytest.mark.hole
def test_the_claims_of_a_plan_have_these_assumptions() -> None:
    data = plan.synthetic(SCHEMA, of_sizes(30, 30, 30, 30), 1, 0.8)
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["plan", "--schema=a.toml", "--num_seeds=1"])
    (point,) = plan._swept(data, "secure_aggregation", 3.0, 4)["points"]
    assert len(point["guarantees"]) == 4
    for claim in point["guarantees"]:
        assert "whole numbers of a grid" in claim["assumptions"]
        assert "seed stays secret" not in claim["assumptions"]


@pytest.mark.hole
def test_a_site_promises_the_simulators_epsilon_of_a_broken_sum() -> None:
    """`site propose`, `join` and the site's page were silent on it."""
    data = plan.synthetic(SCHEMA, of_sizes(30, 30, 30, 30), 1, 0.8)
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["plan", "--schema=a.toml", "--num_seeds=1", "--colluders=1"])
    (point,) = plan._swept(data, "secure_aggregation", 3.0, 4)["points"]
    (broken,) = (c for c in point["guarantees"] if c["adversary"] == "server")
    promise = make_policy(
        ExperimentConfig(
            dataset="npz",
            mechanism="gaussian",
            clipping="per_example",
            noise_trust="secure_aggregation",
            noise_sampler="discrete",
            batches="poisson",
            local_steps=1,
            num_clients=4,
            cohort_size=4,
            batch_size=30,
            num_rounds=5,
            num_hbc_clients=1,
            solve="noise",
            total_epsilon=3.0,
            total_accounting="pld",
            target_delta=1e-5,
        ),
        min_num_examples=1,
        max_num_examples=30,
    ).says()
    assert promise["server_epsilon"] == pytest.approx(broken["epsilon"], rel=1e-3)
    claims = guarantees.strongest([guarantees.promised(promise, "proved")])
    right = {claim["adversary"]: claim["right"] for claim in claims}
    assert right["server"] == broken["right"] > right[promise["adversary"]]


@pytest.mark.hole
@pytest.mark.parametrize(
    ("between", "word"),
    [
        ((0.6, 0.9), "better than guessing"),
        ((0.5, 0.6), "better than guessing if the best AUC is ≥ 0.81"),
        ((0.5, 0.55), "not shown to be better than guessing"),
    ],
)
def test_the_best_auc_that_columns_need_is_named(between: Any, word: str) -> None:
    """It said "depends on your columns". Of 190 and 109 rows an AUC is above .5 by
    1.96 standard errors of Mann and Whitney's from .5 + 1.96·√(300/(12·190·109))."""
    least = 0.5 + 1.96 * np.sqrt(300 / (12 * 190 * 109))
    if between == (0.5, 0.6):  # linear from .6 to .9
        assert 0.6 + 0.3 * (least - 0.5) / 0.1 == pytest.approx(0.805, abs=0.005)
    accuracy = {"auc_between": between, "best": (0.6, 0.9), "excess": (-0.1, -0.2)}
    of_columns = plan._worth(accuracy, np.array([190, 109]))
    needed = {"g": 0.6, "1": 0.81}.get(word[-1] if "not" not in word else "")
    assert of_columns == {"worth": word, "needed": needed}
    accuracy["excess"] = (0.05, -0.05)  # below 0 from .75
    worse = plan._worth(accuracy, np.array([190, 109]))["worth"]
    assert ("AUC is ≥ 0.76" in worse) == (between == (0.6, 0.9))
    accuracy |= {"auc_between": (0.9, 0.5), "excess": (-0.1, -0.1)}  # by chance
    worse = plan._worth(accuracy, np.array([190, 109]))
    assert worse == {"worth": "not shown to be better than guessing", "needed": None}


def plan_of(
    kinds: Any,
    reference: float | None = 0.6,
    best: Any = (0.6, 0.9),
    status: str = "proved",
) -> Any:
    """A plan's document, of (ε, needed AUC, ε of the broken sum or None) by kind."""
    points = []
    for kind, of_kind in kinds.items():
        for epsilon, needed, broken in of_kind:
            claim = {"adversary": "server", "assumptions": views.BYPASSED}
            claim |= {"epsilon": broken, "right": 100 if (broken or 0) > 9 else 88}
            accuracy = {"needed": needed, "tried": [[0.55, 0.57], [0.8, 0.9]]}
            point = {"mechanism": kind, "epsilon": epsilon, "accuracy": accuracy}
            main = {"adversary": "A", "right": 100 if epsilon > 9 else 58}
            main |= {"status": status, "relation": "leave one record out"}
            guarantees = [main, claim] if broken else [main]
            point |= {"guarantees": guarantees, "rounds": 60, "adversary": "A"}
            points.append(point)
    of_reference = {"needed": reference, "best": best, "tried": [[0.6], [0.8]]}
    return {"points": points, "reference": of_reference | {"name": "regression"}}


def test_the_smallest_useful_epsilon_is_named_by_kind_of_trust() -> None:
    """Hospitals said: it prints tables, and not the ε that they can afford."""
    kinds = {
        "sums": [(8.0, 0.6, None), (1.0, 0.76, None), (3.0, 0.65, None)],
        "by chance": [(1.0, 0.6, None), (3.0, None, None), (8.0, 0.7, None)],
        "useless": [(1.0, None, None), (8.0, None, None)],
        "always": [(0.5, 0.6, None), (8.0, 0.6, None)],
    }
    text = headline.filled("afford", plan_of(kinds))
    assert "AUC 0.65: always 0.5, by chance none, sums 3, useless none AUC" in text
    assert text.endswith("AUC 0.75: always 0.5, by chance 8, sums 3, useless none")
    bare = headline.filled(
        "afford", plan_of({"one": [(1.0, None, 0)]}, None, (0.7, 0.7))
    )
    assert bare.count("AUC 0.7:") == 1  # --auc names one
    assert bare.endswith(
        "0.7: one none (nor is one without privacy, on these test rows)"
    )


def test_a_plan_recommends_an_epsilon_or_says_why_none() -> None:
    """A board asked for one sentence: take this ε, because."""
    kinds = {
        "secure aggregation": [(1.0, 0.76, None), (3.0, 0.73, None), (8.0, 0.6, None)],
        "trusted server": [(1.0, 0.6, None), (8.0, 0.6, None)],
    }
    text = headline.filled("afford", plan_of(kinds))
    assert text.startswith(
        "Take ε = 8 (secure aggregation), because it is the smallest ε tried that "
        "leaves a model better than guessing, and at most 58 of 100 guesses about one"
    )
    assert "reach an AUC of about 0.6 or more (compare published" in text
    # Its columns told much, ε = 3 did as well, and the recommendation did not say so.
    assert "tables). If it would reach 0.75, ε = 3 is enough. It was" in text
    assert "made-up rows, where ε and the few steps cost 0.040 of AUC in the" in text
    assert "until then no ε is proved" not in text
    nominal = headline.filled("afford", plan_of(kinds, status="nominal"))
    assert "once the schema is confirmed, for until then no ε is proved." in nominal
    kinds["secure aggregation"] = [(3.0, 0.73, None), (8.0, 0.9, None)]
    text = headline.filled("afford", plan_of(kinds))
    assert text.startswith("Take ε = 1 (trusted server), because")
    assert "is enough" not in text
    for useless in ((12.0, 0.6, None), (1.0, None, None)):  # of no protection, or use
        text = headline.filled("afford", plan_of({"sums": [useless]}))
        assert text.startswith("No ε of those tried can be recommended, because none")
        assert "On so few test rows" not in text
    text = headline.filled("afford", plan_of({"sums": [useless]}, None))
    assert "On so few test rows not even that one is shown to be better" in text


@pytest.mark.parametrize(
    ("broken", "end"),
    [
        (
            (7.36, 25.6),
            "Should that happen, ε ≤ 1, of those tried, still promises some",
        ),
        ((12.0, 25.6), "None of those tried promises protection then."),
        ((2.0, 7.0), "Should that happen, ε ≤ 3, of those tried, still promises some"),
    ],
)
def test_a_plan_says_which_epsilon_outlasts_a_broken_sum(broken: Any, end: str) -> None:
    kinds = {"sums": [(3.0, 0.6, broken[1]), (1.0, 0.6, broken[0])]}
    text = headline.filled("broken", plan_of(kinds | {"server": [(1.0, 0.6, None)]}))
    first = f"ε is {broken[0]:g} in the place of 1, {broken[1]:g} in the place of 3. "
    assert first + end in text
    assert headline.filled("broken", plan_of({"server": [(1.0, 0.6, None)]})) == ""


def test_a_plan_says_what_the_route_costs_at_each_epsilon() -> None:
    """Means of .56 and .85 beside .6 and .8: of weak columns .04, of strong none."""
    kinds = {"sums": [(1.0, 0.6, None), (8.0, 0.6, None)]}
    document = plan_of(kinds)
    text = headline.filled("lost", document)
    assert text.startswith("Noise, clipping and 60 steps cost this much AUC in the")
    assert "rows, at ε = 1, 8: sums 0.040, 0.040. On your rows" in text
    document["points"] += plan_of({"one holder": [(8.0, 0.6, None)]})["points"]
    document["points"][-1]["rounds"] = 240
    assert "clipping and 60 to 240 steps cost" in headline.filled("lost", document)
