"""Figures for papers: written in the format that the suffix names."""

from pathlib import Path

import pytest

from fedsvp_jax.report import figures


def test_a_sweep_is_drawn_as_png(sweep_dir: Path, tmp_path: Path) -> None:
    path = figures.sweep_png(sweep_dir, tmp_path / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_equal_results_give_equal_svg(sweep_dir: Path, tmp_path: Path) -> None:
    first = figures.sweep_png(sweep_dir, tmp_path / "a.svg").read_bytes()
    assert figures.sweep_png(sweep_dir, tmp_path / "b.svg").read_bytes() == first


def test_a_run_is_drawn(run_dir: Path, tmp_path: Path) -> None:
    path = figures.run_png(run_dir, tmp_path / "figure.png")
    assert path.stat().st_size > 10_000


def test_an_unknown_format_is_refused(sweep_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"path must end in one of .png, .svg, .pdf"):
        figures.sweep_png(sweep_dir, tmp_path / "figure.doc")


def test_dollars_in_names_are_no_formula(sweep_dir: Path, tmp_path: Path) -> None:
    path = sweep_dir / "results.jsonl"
    path.write_text(path.read_text().replace('"fedsdp"', '"$\\\\frac{$"'))
    assert figures.sweep_png(sweep_dir, tmp_path / "figure.svg").exists()
