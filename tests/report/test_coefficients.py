"""Odds ratios on a run's page: what a statistician reads of the published model."""

import csv
import dataclasses
import datetime
import html
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import save_file
from scored_runs import SCORES
from small_folders import change

import experiments
from fedsvp_jax import report, run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables import encoding
from fedsvp_jax.data.tables.schema import from_toml
from fedsvp_jax.federation import routes
from fedsvp_jax.report import coefficients, read

SCHEMA = """schema = 1
[label]
column = "ill"
classes = ["no", "yes"]
[columns.sex]
type = "category"
values = ["F", "M", "*"]
[columns.age]
type = "number"
bounds = [20, 100]
[columns.dose]
type = "number"
bounds = [0.5, 64]
log = true
[columns.seen]
type = "date"
bounds = [2020-01-01, 2022-01-01]
"""
WEIGHTS = np.array([0.1, 0.4, -0.3, 0.8, -0.6, 0.2], np.float32)


@pytest.fixture
def folder(run_dir: Path) -> Path:
    """A run of a logistic model on a table."""
    (run_dir / "schema.toml").write_text(SCHEMA)
    change(run_dir / "config.json", model="logistic", num_classes=2)
    change(run_dir / "summary.json", test_scores=SCORES)
    save(run_dir)
    return run_dir


def save(folder: Path) -> None:
    kernel = np.stack([0.5 * WEIGHTS, 1.5 * WEIGHTS])
    bias = np.array([0.3, -0.9], np.float32)
    tensors = {"params/kernel": kernel, "params/bias": bias}
    save_file(tensors, folder / "model.safetensors")


def log_odds(**cells: str) -> float:
    """What the model says of a row."""
    row = {"sex": "F", "age": "20", "dose": "0.5", "seen": "2020-01-01"} | cells
    columns = {name: pa.chunked_array([[cell]]) for name, cell in row.items()}
    encoded = encoding.encode(from_toml(SCHEMA, "s"), columns, "t")
    return float(encoded.inputs[0] @ WEIGHTS) - 1.2


def test_ratios_are_those_of_the_models_predictions(folder: Path) -> None:
    changes = [
        ("sex", "M"), ("sex", "other"), ("age", "100"), ("dose", "64"),
        ("seen", "2022-01-01"),
    ]  # fmt: skip
    first, *found = coefficients.effects(read.read_run(folder), folder)
    assert first[:2] == ("intercept", None)
    assert first[2] == pytest.approx(log_odds(), abs=1e-6)
    for (name, value), effect in zip(changes, found, strict=True):
        assert effect[0] == name
        expected = log_odds(**{name: value}) - log_odds()
        assert effect[2] == pytest.approx(expected, abs=1e-6), name
    assert [effect[1] for effect in found] == ["M", "*", 100, 64, 18993]
    text = re.sub("<[^>]+>", " ", report.write_run_report(folder).read_text())
    year = math.exp(log_odds(age="61") - log_odds(age="60"))
    twice = math.exp(log_odds(dose="2.5") - log_odds(dose="1"))  # 1 + x - low: 1.5, 3
    day = math.exp(log_odds(seen="2020-01-02") - log_odds())
    for part in (
        f"{year:.4g} (1 more)",
        f"{twice:.4g} (per doubling of (dose + 0.5))",
        f"{day:.4g} (a day more)",
        "“M”, against “F”",
        "2020-01-01 to 2022-01-01",
        "Odds ratios of class “yes”",
    ):
        assert part in " ".join(text.split()), part


def test_the_printed_numbers_rebuild_the_model(folder: Path) -> None:
    """Without an intercept a statistician could not predict in R."""
    same = '[columns.same]\ntype = "number"\nbounds = [3, 3]\n[columns.age]'
    schema = SCHEMA.replace("[columns.age]", same)
    (folder / "schema.toml").write_text(schema)
    kernel = np.insert(np.stack([0.5 * WEIGHTS, 1.5 * WEIGHTS]), 3, 7, axis=1)
    bias = np.array([0.3, -0.9], np.float32)
    tensors = {"params/kernel": kernel, "params/bias": bias}
    save_file(tensors, folder / "model.safetensors")
    text = report.write_run_report(folder).read_text()
    text = text.partition('<section id="coefficients"')[2].partition("</section>")[0]
    cells = re.findall(r'data-head="(?:column|change|log odds)">([^<]*)<', text)
    rows = [*zip(*[iter(map(html.unescape, cells))] * 3, strict=True)]
    intercept = float(rows[0][2])
    odds = {(name, change.partition(",")[0]): float(x) for name, change, x in rows}
    for sex, age, dose, day in (("F", 25, 0.5, 0), ("M", 150, 3, 99), ("x", 80, 60, 1)):
        rebuilt = intercept + {"F": 0.0, "M": odds["sex", "“M”"]}.get(
            sex, odds["sex", "“*”"]
        )
        rebuilt += odds["age", "from 20.0 to 100.0"] * (min(age, 100) - 20) / 80
        share = math.log(1 + dose - 0.5) / math.log(64.5)
        rebuilt += odds["dose", "from 0.5 to 64.0"] * share
        rebuilt += odds["seen", "from 2020-01-01 to 2022-01-01"] * day / 731
        seen = str(datetime.date(2020, 1, 1) + datetime.timedelta(day))
        expected = log_odds(sex=sex, age=str(age), dose=str(dose), seen=seen)
        assert rebuilt == pytest.approx(expected, abs=1e-5)
    probability = 100 / (1 + math.exp(-log_odds()))
    text = " ".join(html.unescape(text).split())
    assert f"a probability of {probability:.1f} %" in text
    assert "from 0.5 to 64.0, by its logarithm" in text


def test_a_spline_is_rebuilt_by_straight_lines_through_its_rows(folder: Path) -> None:
    schema = SCHEMA.replace("[0.5, 64]", "[0.5, 64]\nknots = [2, 9.5]")
    schema = schema.replace("[20, 100]", "[20, 100]\nunits = 'years'")
    (folder / "schema.toml").write_text(schema)
    weights = np.insert(WEIGHTS, 5, [1.5, -0.7]).astype(np.float32)
    kernel, bias = np.stack([0 * weights, weights]), np.zeros(2, np.float32)
    tensors = {"params/kernel": kernel, "params/bias": bias}
    save_file(tensors, folder / "model.safetensors")
    path = report.write_run_report(folder)
    assert "from 0.5 to 9.5, by its logarithm" in path.read_text()
    assert "on straight lines" in path.read_text()
    assert "(1 years more)" in path.read_text()
    rows = [*csv.DictReader((folder / "coefficients.csv").read_text().splitlines())]
    rows = [row for row in rows if row["column"] == "dose"]
    doses = np.array([0.5, 1.1, 2, 4, 9.5, 30, 64])
    column = from_toml(schema, "s").columns["dose"]
    expected = column.scaled(doses) @ weights[4:7]
    share = np.log(doses + 0.5)
    points = np.log(np.array([0.5, 2, 9.5, 64]) + 0.5)
    rebuilt = np.interp(share, points, [0, *(float(row["log_odds"]) for row in rows)])
    assert rebuilt == pytest.approx(expected - expected[0], abs=1e-5)


def test_the_help_of_report_names_every_file_that_it_leaves_out(folder: Path) -> None:
    """--noreport left out protection.html and coefficients.csv without a word."""
    before = {*folder.iterdir()}
    report.write_run_report(folder)
    flags = Path(experiments.__file__).with_name("flags.toml").read_text()
    described = tomllib.loads(flags)["running"]["report"]["help"]
    names = {path.name for path in {*folder.iterdir()} - before}
    assert names == {"report.html", "protection.html", "coefficients.csv"}
    assert all(name in described for name in names), described


def test_other_models_have_no_such_table(folder: Path) -> None:
    def page() -> str:
        return report.write_run_report(folder).read_text()

    assert 'id="coefficients"' in page()
    for changes in ({"model": "mlp"}, {"num_classes": 3}):
        before = json.loads((folder / "config.json").read_text())
        change(folder / "config.json", **changes)
        assert 'id="coefficients"' not in page()
        change(folder / "config.json", **before)
    (folder / "model.safetensors").unlink()
    assert 'id="coefficients"' not in page()
    save(folder)
    (folder / "summary.json").unlink()
    assert 'id="coefficients"' not in page()


def test_noise_moves_a_weight_as_the_servers_steps_do(folder: Path) -> None:
    """They are run, of noise alone, flat and in a valley."""
    files = read.read_run(folder)
    norms, rate, momentum, size = [3.0, 2.0, 2.0, 1.0, 0.5], 0.7, 0.9, 100
    settings = {"server_learning_rate": rate, "server_momentum": momentum}
    files = dataclasses.replace(
        files,
        config=files.config | settings | {"server_optimizer": "sgd"},
        metrics=[{"aggregate_noise_l2": norm} for norm in norms],
        summary=files.summary | {"num_parameters": size},
    )
    stds = coefficients.noise_stds(files)
    assert stds is not None
    rng = np.random.default_rng(0)
    for curvature in (0.0, 0.5, 2.0, 2 * (1 + momentum) / rate):
        weights = np.zeros((2, 20000))
        speed = np.zeros_like(weights)
        for norm in norms:
            noise = rng.normal(size=weights.shape) * norm / math.sqrt(size)
            speed = momentum * speed + noise - curvature * weights
            weights = weights + rate * speed
        spread = (weights[1] - weights[0]).std()
        moved = coefficients.responses(files.config, np.full(len(norms), curvature))
        assert spread == pytest.approx(np.linalg.norm(stds * moved), rel=0.02)
    other = dataclasses.replace(
        files, config=files.config | {"server_optimizer": "adam"}
    )
    assert coefficients.noise_stds(other) is None


EFFECTS = np.array([-0.6, 0.8, -0.5, 0.4])
TABLE = """schema = 1
[label]
column = "ill"
classes = ["no", "yes"]
[columns.a]
type = "number"
bounds = [0, 10]
[columns.b]
type = "number"
bounds = [0, 1]
[columns.c]
type = "number"
bounds = [0, 4]
"""


def patients(rng: np.random.Generator, rows: int = 400) -> Dataset:
    inputs = rng.uniform(-1, 1, (rows + 20, 3)).astype(np.float32)
    inputs[:, 1] = np.where(inputs[:, 1] < 0.4, -1, 1)
    chance = 1 / (1 + np.exp(-EFFECTS[0] - inputs @ EFFECTS[1:]))
    labels = (rng.random(len(inputs)) < chance).astype(np.int32)
    return Dataset(
        name="patients",
        train_inputs=inputs[20:],
        train_labels=labels[20:],
        test_inputs=inputs[:20],
        test_labels=labels[:20],
        num_classes=2,
        schema=from_toml(TABLE, "t"),
    )


def trained(
    folder: Path, data: Dataset, seed: int, **settings: Any
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The log odds of a run on the route, and their standard errors."""
    route = routes.PROMISE | routes.ROWS | {"target_delta": 1e-5, "delta": 1e-5}
    route |= {"num_clients": 2, "cohort_size": 2, "partition": "iid"}
    route |= {"batch_size": 200, "num_rounds": 60, "learning_rate": 0.2}
    route |= {"learning_rate_schedule": "cosine", "total_epsilon": 4.0, "seed": seed}
    route |= {"noise_sampler": "discrete", "noise_bits": 24, "total_accounting": "rdp"}
    route |= {"l2_norm_clip": 2.0, "eval_every": 100} | settings
    config = resolve(ExperimentConfig(dataset="csv", **route), dataset=data)
    run.train(config, folder, dataset=data)
    model = run.load_model(folder)
    rows = coefficients.changes(data.schema)[1]
    errors = coefficients.standard_errors(folder, config, data, model)
    return rows @ coefficients.difference(**model.params), errors


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["noise", "noise_and_rows"])
def test_the_standard_errors_are_the_spread_of_trainings(
    kind: str, tmp_path: Path
) -> None:
    """The bound by public numbers was 2 to 8 times this spread."""
    rng = np.random.default_rng(5)
    data = patients(rng)
    log_odds, errors = [], []
    for draw in range(60):
        if kind == "noise_and_rows":
            data = patients(rng)
        one, spread = trained(tmp_path / str(draw), data, draw)
        log_odds.append(one)
        errors.append(spread[kind])
    found = np.std(log_odds, axis=0, ddof=1)
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / found
    assert np.all((ratio > 0.75) & (ratio < 1.35)), ratio
    off = np.abs(np.array(log_odds) - np.mean(log_odds, axis=0)) / errors
    assert np.mean(off < 1.96) > 0.9


def test_errors_of_rows_are_the_sandwich_where_training_has_converged(
    tmp_path: Path,
) -> None:
    """Nearly those of R's glm: the clip shortens no features, and few residuals."""
    data = patients(np.random.default_rng(1))
    log_odds, errors = trained(
        tmp_path / "run", data, 0, **{"total_epsilon": 1e5, "num_rounds": 600}
    )
    inputs = np.insert(np.asarray(data.train_inputs, float), 0, 1, axis=1)
    rows = coefficients.changes(data.schema)[1]
    weights = np.linalg.solve(rows, log_odds)
    chance = 1 / (1 + np.exp(-inputs @ weights))
    bent = inputs.T @ (inputs * (chance * (1 - chance))[:, None])
    glm = np.sqrt(np.diag(rows @ np.linalg.inv(bent) @ rows.T))
    assert errors["noise"] == pytest.approx(0, abs=0.01)
    assert errors["noise_and_rows"] == pytest.approx(glm, rel=0.15)


def test_other_trainings_have_no_standard_errors(tmp_path: Path) -> None:
    data = patients(np.random.default_rng(1))
    for name, settings in {
        "whole": {"separate_clips": False},
        "in the step": {"noise_sampler": "gaussian"},
        "adam": {"server_optimizer": "adam", "server_momentum": 0.0},
    }.items():
        assert not trained(tmp_path / name, data, 0, num_rounds=2, **settings)[1]


def test_the_page_and_the_csv_tell_which_numbers_are_to_be_kept(folder: Path) -> None:
    spread = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05]
    path = report.write_run_report(folder)
    assert "coefficients.csv" in path.read_text()
    rows = [*csv.DictReader((folder / "coefficients.csv").read_text().splitlines())]
    assert {row["private_se"] for row in rows} == {""}
    text = path.read_text()
    assert "s.e. of noise" not in text
    assert "private_se… of coefficients.csv are empty: only fedsvp train --goal" in text
    (folder / "reference.json").write_text(json.dumps(SCORES))
    sampled = {"noise_sampler": "gaussian", "batches": "poisson", "batch_size": 4096}
    for rows, why in ((6000, "; here a step takes about 4096 rows of a"), (4000, "")):
        sizes = {"num_clients": 1, "num_train_examples": rows}
        change(folder / "config.json", **sampled, **sizes)
        text = report.write_run_report(folder).read_text()
        assert "known only where every step takes all rows of a client, its" in text
        assert f"the server adds up by sgd{why}" in text
        assert ("drawn at random" in text) == bool(why)
    wider = [2 * one for one in spread]
    kept = SCORES | {"noise": spread, "noise_and_rows": wider}
    (folder / "reference.json").write_text(json.dumps(kept))
    text = report.write_run_report(folder).read_text()
    text = text.partition('<section id="coefficients"')[2].partition("</section>")[0]
    assert "Keep the last three columns to yourself" in text
    assert "No standard errors are given" not in text
    rows = [*csv.DictReader((folder / "coefficients.csv").read_text().splitlines())]
    assert [row["column"] for row in rows][:3] == ["intercept", "sex", "sex"]
    assert [row["category"] for row in rows][1:3] == ["M", "*"]
    assert {row["class"] for row in rows} == {"yes"}  # of which the log odds are
    assert [float(row["private_se"]) for row in rows] == pytest.approx(wider)
    year = log_odds(age="61") - log_odds(age="60")
    assert float(rows[3]["log_odds_per_step"]) == pytest.approx(year, rel=1e-4)
    assert float(rows[3]["private_se_per_step"]) == pytest.approx(0.4 / 80)
    assert float(rows[3]["private_se_noise_per_step"]) == pytest.approx(0.2 / 80)
    age = float(rows[3]["log_odds"])
    ends = (f"{math.exp(age + sign * 1.96 * 0.4):.2g}" for sign in (-1, 1))
    assert " to ".join(ends) in text
