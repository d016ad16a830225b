"""Figures for papers: their format, width, ticks, legends and intervals."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from fedsvp_jax.report import figures
from fedsvp_jax.report.plots import Plot, Series

POINTS = 72  # per inch: the unit of an SVG's width


def width(path: Path) -> float:
    """In inches."""
    found = re.search(r'width="([\d.]+)pt"', path.read_text())
    assert found
    return float(found[1]) / POINTS


def drawn(plot: Plot, path: Path) -> Any:
    """The axes on which a plot was drawn."""
    seen = []

    def draw(axes: Any) -> None:
        figures._plot(axes, plot)
        seen.append(axes)

    figures.panels(path, [draw])
    return seen[0]


def test_every_plot_of_a_sweep_is_drawn_in_one_column(
    sweep_dir: Path, tmp_path: Path
) -> None:
    """Equal results give equal files, and a dollar in a name is no formula."""
    first = figures.draw([sweep_dir], tmp_path / "a", "svg")
    again = figures.draw([sweep_dir], tmp_path / "b", "svg")
    assert [path.read_bytes() for path in first] == [p.read_bytes() for p in again]
    assert {"accuracy_epsilon.svg", "noise.svg"} <= {path.name for path in first}
    assert width(first[0]) == pytest.approx(3.5)
    path = sweep_dir / "results.jsonl"
    path.write_text(path.read_text().replace('"fedsdp"', '"$\\\\frac{$"'))
    assert figures.draw([sweep_dir], sweep_dir / "figures", "svg")


def test_a_run_is_drawn_in_the_format_that_is_asked_for(
    run_dir: Path, tmp_path: Path
) -> None:
    for kind, start in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        for path in figures.draw([run_dir], tmp_path, kind):
            assert path.read_bytes().startswith(start)
    with pytest.raises(ValueError, match="Format 'doc' is not supported"):
        figures.draw([run_dir], tmp_path, "doc")


@pytest.mark.parametrize("top", [1.3, 5.0, 60.0, 1e4, 1e9])
def test_labels_of_a_log_axis_do_not_collide(tmp_path: Path, top: float) -> None:
    series = [Series("one", [1, 2], [1.0, top])]
    plot = Plot("p", "title", "", "y", series, "x", log="y")
    axes = drawn(plot, tmp_path / "p.svg")
    renderer = axes.get_figure(root=True).canvas.get_renderer()
    low, high = axes.get_ylim()
    shown = [
        label.get_window_extent(renderer)
        for label in axes.get_yticklabels()
        if low <= label.get_position()[1] <= high
    ]
    assert len(shown) >= 3
    ordered = sorted(shown, key=lambda box: box.y0)
    for below, above in itertools.pairwise(ordered):
        assert below.y1 < above.y0
