"""`experiments.plan`: what ε bounds, and synthetic rows of the schema's shape."""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
import pytest
from absl import flags
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
    ward = np.array(wards == "two", int)
    sizes, persons, tested = plan.training_rows(schema, table, ward)
    assert persons is not None and tested == 14 - 11
    data = plan.synthetic(schema, sizes, 1, 0.8, persons)
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
    short = ("--total_epsilon=9", "--num_seeds=2", "--auc=.9")
    done = succeeds(*line, *short, f"--output_dir={out}")
    assert "1 client of 48 training rows" in done.stdout
    assert "Every ε is at δ = 1e-05; what may change: one row more or less" in (
        done.stdout
    )
    table = done.stdout.split("yours are.")[1]  # whose cells may be broken into lines
    assert {"server", "9", "useful", "proved", "inf", "FedAvg,"} <= {*table.split()}
    document = json.loads((out / "epsilon.json").read_text())
    (point,) = document["points"]
    assert point["epsilon"] == 9 and point["uploads_left"] == 0
    assert point["accuracy"]["seeds"] == document["fedavg"]["seeds"] == 2
    assert {claim["status"] for claim in point["guarantees"]} == {"proved"}
    assert "on synthetic rows whose columns" in (out / "epsilon.html").read_text()
    zero = command(*line, "--total_epsilon=0")
    assert_sentence(zero, "total_epsilon must be greater than 0")


@pytest.mark.hole
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


@pytest.mark.hole
def test_kinds_of_trust_stand_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    def swept(data: Any, trust: str | None, epsilon: float) -> Any:
        area = {"nobody": 0.55, None: 0.8}.get(trust, 0.78)
        value = {"mean": 0.7, "lower": 0.6, "upper": 0.8, "auc": area, "auc_std": 0.02}
        claim = {"adversary": "server", "right": 50, "status": "proved"}
        point = {"accuracy": value, "epsilon": epsilon, "adversary": "server"}
        observer = {"adversary": "outside observer of the final model"}
        point |= {"guarantees": [claim, observer], "mechanism": "Gaussian"}
        return {"fedavg": value, "points": [point]}

    monkeypatch.setattr(plan, "_swept", swept)
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["plan", "--schema=a.toml"])
    document = plan._planned(plan.synthetic(SCHEMA, [5, 9], 1, 0.8), (3.0,))
    counts = np.array([190, 109])
    document = plan._joined([document, document], (0.8,), counts)
    kinds = [point["mechanism"] for point in document["points"]]
    assert kinds == ["server sees each upload", "secure aggregation", "trusted server"]
    points = (*document["points"], plan._bare(document["fedavg"]))
    rows = [plan._row(point, counts) for point in points]
    models = [row["model"] for row in rows]
    assert models == ["not useful", "useful", "useful", "useful"]
    assert rows[0]["AUC"] == "0.483 to 0.617"
    bare = rows[-1]  # Hanley and McNeil's by root finding: .7391 to .8492, on a grid
    assert (bare["AUC"], bare["status"]) == ("0.740 to 0.849", "hides nothing")
    assert document["points"][0]["accuracy"]["auc_std"] == 0.02
    (pooled,) = document["points"][2]["guarantees"]
    assert pooled["adversary"] == "whoever sees the models"


@pytest.mark.hole
@pytest.mark.parametrize(
    ("between", "word"),
    [
        ((0.6, 0.9), "useful"),
        ((0.5, 0.6), "useful from AUC 0.81"),
        ((0.5, 0.55), "not useful"),
    ],
)
def test_the_best_auc_that_columns_need_is_named(between: Any, word: str) -> None:
    """It said "depends on your columns". Of 190 and 109 rows an AUC is above .5 by
    1.96 standard errors of Mann and Whitney's from .5 + 1.96·√(300/(12·190·109))."""
    least = 0.5 + 1.96 * np.sqrt(300 / (12 * 190 * 109))
    if between == (0.5, 0.6):  # linear from .6 to .9
        assert 0.6 + 0.3 * (least - 0.5) / 0.1 == pytest.approx(0.805, abs=0.005)
    accuracy = {"auc_between": between, "best": (0.6, 0.9)}
    assert plan._worth(accuracy, np.array([190, 109])) == word
