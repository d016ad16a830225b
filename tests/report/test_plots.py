"""Curves say what the files say."""

from pathlib import Path

from fedsvp_jax.report import read
from fedsvp_jax.report.plotly_spec import plotly_spec
from fedsvp_jax.report.plots import Plot, Series, csv_columns
from fedsvp_jax.report.run_plots import run_plots
from fedsvp_jax.report.sweep_plots import sweep_plots


def test_a_run_has_the_promised_curves_and_without_noise_none_of_it(
    run_dir: Path,
) -> None:
    plots = {plot.id: plot for plot in run_plots(read.read_run(run_dir))}
    assert {"accuracy", "loss", "noise", "ratio", "epsilon"} <= set(plots)
    assert plots["accuracy"].series[0].x == [2, 4, 6]  # the rounds that were evaluated
    assert_within(plots["ratio"].series[0])
    (run_dir / "metrics.jsonl").write_text(
        '{"round": 1, "test_accuracy": 0.5, "noise_l2": 0.0, "noise_std_mean": 0.0}\n'
    )
    (run_dir / "clients.jsonl").write_text("")
    (run_dir / "summary.json").write_text("{}")
    (plot,) = run_plots(read.read_run(run_dir))
    assert plot.id == "accuracy"


def assert_within(series: Series) -> None:
    for low, mean, high in zip(series.lower, series.y, series.upper, strict=True):
        assert low <= mean <= high


def test_an_accounting_known_at_the_end_alone_is_a_point(run_dir: Path) -> None:
    run = read.read_run(run_dir)
    plots = {plot.id: plot for plot in run_plots(run)}
    curves = {s.keys["accounting"]: s for s in plots["epsilon"].series}
    assert list(curves) == ["basic", "rdp", "pld"]
    spent = run.summary["epsilon_spent"]["pld"]
    assert (curves["pld"].x, curves["pld"].y) == ([6], [spent])
    traces = plotly_spec(plots["epsilon"])["data"]
    assert [trace["mode"] for trace in traces] == ["lines", "lines", "lines+markers"]


def test_sweep_curves_are_means_within_the_range_of_the_seeds(sweep_dir: Path) -> None:
    plots = sweep_plots(read.read_sweep(sweep_dir).results)
    by_id = {plot.id: plot for plot in plots}
    assert by_id["accuracy"].panels == ["FedSDP", "FedSVA"]
    for series in by_id["accuracy"].series:
        assert_within(series)
    fedavg = next(s for s in by_id["accuracy"].series if s.name == "FedAvg")
    assert fedavg.panel == ""  # the reference stands in every panel
    assert all(s.name != "FedAvg" for s in by_id["noise"].series)
    titles = [plot.title for plot in plots]
    assert "Cumulative ε, Rényi DP" in titles
    assert "Cumulative ε, privacy loss distribution" not in titles  # of the end alone


def test_a_download_has_a_row_for_each_point() -> None:
    series = [
        Series({"mechanism": "a"}, "A", [1, 2], [0.5, None], [0.4, None], [0.6, None]),
        Series({"mechanism": "b"}, "B", [1], [0.25]),
    ]
    assert csv_columns(Plot("p", "title", "note", "round", "value", series)) == {
        "mechanism": ["a", "a", "b"],
        "round": [1, 2, 1],
        "value": [0.5, None, 0.25],
        "lower": [0.4, None, None],
        "upper": [0.6, None, None],
    }


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
    plot = next(plot for plot in sweep_plots(rows) if plot.id == "accuracy_epsilon")
    drawn = {series.name: series.x for series in plot.series}
    assert drawn.pop("FedAvg") == [0.9 * 3, 1.1 * 90]
    assert drawn == {
        "NbAFL (proved)": [3.0],
        "NbAFL (nominal)": [9.0],
        "Gaussian (proved)": [90.0],
    }
    assert plot.log_x and plotly_spec(plot)["layout"]["xaxis"]["type"] == "log"
