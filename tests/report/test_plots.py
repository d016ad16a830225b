"""Curves say what the files say."""

import dataclasses
import json
from pathlib import Path

import pytest

from fedsvp_jax.report import read, tables
from fedsvp_jax.report.curves import (
    against_epsilon,
    curves,
)
from fedsvp_jax.report.plots import Series


def test_a_run_has_the_promised_curves_and_what_is_flat_is_not_drawn(
    run_dir: Path,
) -> None:
    plots = {plot.id: plot for plot in curves(read.read_run(run_dir))}
    assert {"accuracy", "loss", "noise", "ratio", "epsilon"} <= set(plots)
    assert plots["accuracy"].series[0].x == [2, 4, 6]  # the rounds that were evaluated
    text = "".join(
        f'{{"round": {number}, "test_accuracy": 0.{number}, "noise_l2": 0.0,'
        ' "noise_std_mean": 0.3}\n'
        for number in (1, 2)
    )
    (run_dir / "metrics.jsonl").write_text(text)
    (run_dir / "clients.jsonl").write_text("")
    names = ("epsilon_spent", "status", "adversary", "relation", "guarantees")
    (run_dir / "summary.json").write_text(json.dumps(dict.fromkeys(names)))
    (plot,) = curves(read.read_run(run_dir))
    assert plot.id == "accuracy"


def test_epsilon_grows_to_that_of_the_claim(run_dir: Path) -> None:
    run = read.read_run(run_dir)
    (plot,) = (plot for plot in curves(run) if plot.id == "epsilon")
    (series,) = plot.series
    assert series.y == sorted(series.y) and plot.y_title.endswith("(nominal)")
    assert series.y[-1] == pytest.approx(run.summary["epsilon_spent"]["rdp"], rel=1e-6)
    assert plot.title.endswith("at most") and "upper bound by Rényi DP" in plot.note


def assert_within(series: Series) -> None:
    for low, mean, high in zip(series.lower, series.y, series.upper, strict=True):
        assert low <= mean <= high


def test_sweep_curves_are_means_within_the_range_of_the_seeds(sweep_dir: Path) -> None:
    plots = curves(read.read_sweep(sweep_dir))
    by_id = {plot.id: plot for plot in plots}
    for series in by_id["accuracy"].series:
        assert_within(series)
    names = [series.name for series in by_id["accuracy"].series]
    assert names[0] == "FedAvg" and "FedSVA, ε = 0.5" in names and len(names) == 5
    assert all(s.name != "FedAvg" for s in by_id["noise"].series)
    sweep = read.read_sweep(sweep_dir)
    rows = [row for row in tables.summarize(sweep.results) if row.status]
    for series, row in zip(by_id["epsilon"].series, rows, strict=True):
        assert series.name == f"{row.group.name} (nominal)"
        assert series.y[-1] == row.epsilon_spent["rdp"]  # the largest over seeds


def test_a_point_stands_where_its_run_led_and_statuses_are_lines_apart() -> None:
    """Nominal and proved of one mechanism; a schedule that follows no ε; FedAvg."""
    one = {"seed": 0, "round": 1, "test_accuracy": 0.5}
    rows = [
        one
        | {"mechanism": mechanism, "epsilon": upload}
        | {"epsilon_spent": {"pld": epsilon}, "status": {"pld": status}}
        for mechanism, upload, epsilon, status in (
            ("nbafl", 0.1, 3.0, "proved"),
            ("nbafl", 0.5, 9.0, "nominal"),
            ("gaussian", 0.1, 90.0, "proved"),
        )
    ]
    rows.append(rows[0] | {"mechanism": "none", "status": None, "epsilon_spent": None})
    (plot,) = against_epsilon(tables.summarize(rows))
    places = {series.name: series.x for series in plot.series}
    assert places.pop("FedAvg") == [0.9 * 3, 1.1 * 90]
    assert places == {
        "NbAFL (proved)": [3.0],
        "NbAFL (nominal)": [9.0],
        "Gaussian (proved)": [90.0],
    }
    assert plot.log == "x"


@pytest.mark.hole
def test_intervals_of_accuracy_end_at_0_and_100_percent() -> None:
    """Student's interval over two seeds reached from -380 % to 490 %."""
    rows = [
        {"mechanism": "gaussian", "epsilon": 0.1, "seed": seed, "round": 1}
        | {"test_accuracy": accuracy, "epsilon_spent": {"pld": 3.0}}
        | {"status": {"pld": "proved"}}
        for seed, accuracy in ((0, 0.2), (1, 0.9))
    ]
    (plot,) = against_epsilon(tables.summarize(rows))
    (series,) = plot.series
    assert (series.lower, series.upper) == ([0.0], [1.0])


def test_the_auc_of_a_sweep_stands_against_epsilon(sweep_dir: Path) -> None:
    sweep = read.read_sweep(sweep_dir)
    assert "auc_epsilon" not in {plot.id for plot in curves(sweep)}
    cells = [
        cell | {"test_scores": {"auc": 0.6 + cell["seed"] / 10}} for cell in sweep.cells
    ]
    plots = curves(dataclasses.replace(sweep, cells=cells))
    (plot,) = (plot for plot in plots if plot.id == "auc_epsilon")
    values = [y for series in plot.series for y in series.y]
    assert values == pytest.approx([0.65] * len(values))


def test_curves_of_other_status_are_told_apart_by_their_names(run_dir: Path) -> None:
    run = read.read_run(run_dir)
    proved = [
        row | {"status": {"rdp": "proved"}} | {"mechanism": "nbafl"}
        for row in run.results
    ]
    sweep = read.SweepFiles({}, [*run.results, *proved], [], {})
    (plot,) = (plot for plot in curves(sweep) if plot.id == "epsilon")
    names = [series.name for series in plot.series]
    assert names == ["FedSVA, ε = 0.5 (nominal)", "NbAFL, ε = 0.5 (proved)"]
    assert plot.y_title == "ε spent at δ = 1e-05 (nominal or proved)"


@pytest.mark.hole
def test_a_sweep_draws_every_field_of_a_plot(sweep_dir: Path) -> None:
    """A sweep's pages drew the first field alone."""
    (plot,) = (p for p in curves(read.read_sweep(sweep_dir)) if p.id == "noise")
    names = [series.name for series in plot.series]
    assert (
        "FedSVA, ε = 0.5" in names and "FedSVA, ε = 0.5, the uploads' average" in names
    )
    assert len({series.look for series in plot.series}) == len(names) == 8


@pytest.mark.hole
def test_unlike_claims_stand_on_axes_of_their_own_and_no_claim_is_a_bare_line() -> None:
    """An observer's ε and a server's shared one axis; FedAvg's line had two points."""
    claimed = {"status": {"rdp": "proved"}, "target_delta": 1e-5}
    rows = [
        {"mechanism": name, "seed": 0, "round": t, "test_accuracy": 0.5, "epsilon": 0.1}
        | {"epsilon_spent": {"rdp": spent * t}, "adversary": who, "relation": what}
        | (claimed if spent else {"epsilon_spent": None, "status": None})
        for t in (1, 2)
        for name, spent, who, what in (
            ("gaussian", 3.0, "server", "replace one record"),
            ("nbafl", 2.0, "server", "replace one record"),
            ("dp_fedavg", 9.0, "observer", "remove a client"),
            ("none", 0.0, None, None),
        )
    ]
    by_id = {plot.id: plot for plot in curves(read.SweepFiles({}, rows, [], {}))}
    observer, server = by_id["accuracy_epsilon"], by_id["accuracy_epsilon_2"]
    names = [[series.name for series in plot.series] for plot in (observer, server)]
    assert names[0] == ["FedAvg", "DP-FedAvg (proved)"]
    assert names[1] == ["FedAvg", "Gaussian (proved)", "NbAFL (proved)"]
    assert server.x_title == (
        "ε spent at δ = 1e-05 (against: server; neighbours: replace one record)"
    )
    assert "against: observer; neighbours: remove a client" in observer.x_title
    fedavg, other = observer.series
    assert not fedavg.look.marker and other.look.marker
    spent = [by_id[name] for name in ("epsilon", "epsilon_2")]
    assert [len(plot.series) for plot in spent] == [1, 2]
    assert "Claimed against: observer" in spent[0].note
