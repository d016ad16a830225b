"""The tables of docs/privacy.md and docs/methods.md come from files, not by hand."""

import pathlib
import re
import shutil

import pytest

from experiments import disclosure_tables

DOCS = pathlib.Path(__file__).parents[2] / "docs"
TABLES = ("results/methods", "results/privacy", "results/guarantees")
BLOCK = re.compile("<!-- measured: .*?<!-- end -->", re.DOTALL)


@pytest.mark.hole
def test_g16_the_pages_say_what_the_library_declares(tmp_path: pathlib.Path):
    (tmp_path / "results").mkdir()
    pages = ("privacy.md", "results/privacy.md")
    for name in pages:
        shutil.copy(DOCS / name, tmp_path / name)
    disclosure_tables.rewrite(tmp_path)
    for name in pages:
        assert (tmp_path / name).read_text() == (DOCS / name).read_text()


@pytest.mark.hole
@pytest.mark.parametrize("name", ["methods", "privacy", "attacks", *TABLES])
def test_g16_a_table_by_hand_holds_no_measured_number(name: str):
    """What stands outside the blocks defines things; no cell has three digits."""
    by_hand = BLOCK.sub("", (DOCS / f"{name}.md").read_text())
    cells = [
        cell.strip()
        for line in by_hand.splitlines()
        if line.startswith("|")
        for cell in line.strip("|").split("|")
    ]
    measured = [cell for cell in cells if re.fullmatch(r"[−-]?\d*\.\d{3,}.*", cell)]
    assert not measured
