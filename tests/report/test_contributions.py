"""The parts of a run's page that tell which attribute matters and who contributes."""

import re
from pathlib import Path
from typing import Any

import pytest
from small_folders import change, page_data, write_rows
from small_runs import read_rows

from fedsvp_jax import report
from fedsvp_jax.report import contributions, read


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
    (first, name, mean), (second, _, other) = contributions.ranked(TWO)
    assert (first, name, second) == (1, "b", 0)
    assert mean.value == pytest.approx(0.4) and other.value == pytest.approx(0.5 / 3)
    assert mean.margin == pytest.approx((0.03**2 + 0.04**2 + 0.02**2) ** 0.5 / 3)


def test_curves_have_bands_and_exact_values_have_none() -> None:
    (curves,) = contributions.attribute_plots(TWO)
    largest = curves.series[0]
    assert largest.name == "b" and largest.y == pytest.approx([0.3, 0.6])
    assert largest.upper == pytest.approx([0.325, 0.62])
    assert largest.lower == pytest.approx([0.275, 0.58])
    exact = files(
        (1, 0, [0.2], None),
        (2, 0, [0.1], None),
        attributes=["<b>"],
        private_attribute=0,
    )
    (curves,) = contributions.attribute_plots(exact)
    assert not curves.series[0].lower
    ((_, name, mean),) = contributions.ranked(exact)
    assert (name, mean.margin) == ("<b>", 0.0)
    unknown = files((1, 0, [0.2, 0.1], [None, 0.0]))
    assert contributions.ranked(unknown)[0][2].margin is None
    assert contributions.attribute_plots(files()) == []


def test_a_client_has_a_row_of_means_and_what_nobody_has_is_none(
    run_dir: Path,
) -> None:
    rows = [
        {"round": number, "client": client, "noise_std": noise}
        for number, client, noise in ((1, 0, 0.2), (2, 0, 0.4), (2, 1, 0.0))
    ]
    write_rows(run_dir / "clients.jsonl", rows)
    change(run_dir / "summary.json", corrupted_clients=[1])
    text = report.write_run_report(run_dir).read_text()
    table = text[text.index('id="clients"') : text.index('id="provenance"')]
    cells = re.findall(r"<tr>(.*?)</tr>", table, re.S)
    first, second = (re.findall(r">([^<]*)</td>", row) for row in cells[1:])
    assert first[:3] == ["0", "2", "0.3"] and second[:3] == ["1 (corrupted)", "1", "–"]
    assert "mean R" not in table


def test_a_page_of_estimates_shows_the_section_and_no_table_of_1024(
    run_dir: Path,
) -> None:
    """Fields and settings of an earlier version, `client_value`, are left out."""
    rows = read_rows(run_dir / "clients.jsonl")
    for row in rows:
        row |= {
            "utilities": [0.1] * 1024,
            "shapley_values": [0.1 * a for a in range(10)],
            "shapley_margins": [0.05] * 10,
            "client_value": 0.25,
            "client_value_margin": None,
        }
    write_rows(run_dir / "clients.jsonl", rows)
    change(run_dir / "summary.json", attributes=None, client_values=[0.25])
    change(run_dir / "config.json", client_values="exact", client_value_models=0)
    text = report.write_run_report(run_dir).read_text()
    assert "Which attribute matters" in text and "attribute 9" in text
    assert re.search(r'data-head="95 % interval">± 0\.0\d+<', text)
    cells = page_data(text)["cells"]
    assert "client_value" not in cells
    assert cells["utilities"] == [] and len(cells["shapley_values"]) == 10
