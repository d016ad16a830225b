"""The section of a run's page that tells which attribute matters."""

from pathlib import Path
from typing import Any

import pytest
from small_folders import page_data, write_rows
from small_runs import read_rows

from fedsvp_jax import report
from fedsvp_jax.report import attribute_values, page, plotly_spec, plots, read


def files(*uploads: tuple[Any, ...], **summary: Any) -> read.RunFiles:
    """Of uploads (round, client, values, margins or None)."""
    rows = []
    for number, client, values, margins in uploads:
        row = {"round": number, "client": client, "shapley_values": values}
        rows.append(row if margins is None else row | {"shapley_margins": margins})
    return read.RunFiles({}, [], rows, summary, None, {})


TWO = files(
    (1, 4, [0.1, 0.5], [0.03, 0.03]),
    (1, 7, [0.3, 0.1], [0.04, 0.04]),
    (2, 7, [0.1, 0.6], [0.02, 0.02]),
    attributes=["a", "b"],
    private_attribute=0,
)


def test_attributes_are_ranked_by_their_mean_with_the_means_interval() -> None:
    (first, name, mean), (second, _, other) = attribute_values.ranked(TWO)
    assert (first, name, second) == (1, "b", 0)
    assert mean.value == pytest.approx(0.4) and other.value == pytest.approx(0.5 / 3)
    assert mean.margin == pytest.approx((0.03**2 + 0.04**2 + 0.02**2) ** 0.5 / 3)


def test_curves_have_bands_and_the_map_has_a_row_per_client() -> None:
    curves, heat = attribute_values.attribute_plots(TWO)
    assert isinstance(curves, plots.Plot) and isinstance(heat, plots.HeatMap)
    largest = curves.series[0]
    assert largest.name == "b" and largest.y == pytest.approx([0.3, 0.6])
    assert largest.upper == pytest.approx([0.325, 0.62])
    assert largest.lower == pytest.approx([0.275, 0.58])
    assert list(heat.rows) == ["4", "7"] and list(heat.columns) == ["b", "a"]
    assert heat.cells[1] == pytest.approx([0.35, 0.2])
    columns = plots.heat_map_columns(heat)
    assert columns["attribute"] == ["b", "a", "b", "a"]
    spec = plotly_spec.heat_map_spec(heat)
    assert spec["data"][0]["z"][0] == [0.5, 0.1]
    assert page.plot_data([heat])[0]["columns"] == columns


def test_exact_values_have_no_band_and_names_stay_strings() -> None:
    exact = files((1, 0, [0.2], None), attributes=["<b>"], private_attribute=0)
    curves, heat = attribute_values.attribute_plots(exact)
    assert isinstance(curves, plots.Plot) and curves.series[0].lower is None
    table = attribute_values.ranking_table(exact)
    assert "exact" in table and "&lt;b&gt; (private)" in table
    assert isinstance(heat, plots.HeatMap)
    assert plotly_spec.heat_map_spec(heat)["data"][0]["x"] == ["&lt;b&gt;"]
    unknown = files((1, 0, [0.2, 0.1], [None, 0.0]))
    assert attribute_values.ranked(unknown)[0][2].margin is None
    assert attribute_values.attribute_plots(files()) == []


def test_a_page_of_estimates_shows_the_section_and_no_table_of_1024(
    run_dir: Path,
) -> None:
    rows = read_rows(run_dir / "clients.jsonl")
    for row in rows:
        row |= {
            "utilities": [0.1] * 1024,
            "shapley_values": [0.1 * a for a in range(10)],
            "shapley_margins": [0.05] * 10,
        }
    write_rows(run_dir / "clients.jsonl", rows)
    text = report.write_run_report(run_dir).read_text()
    assert "Which attribute matters" in text and "attribute 9" in text
    cells = page_data(text)["cells"]
    assert cells["utilities"] == [] and len(cells["shapley_values"]) == 10
