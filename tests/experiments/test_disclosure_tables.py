"""Measured parts of pages are written by a program, from files, not by hand."""

import pathlib
import re
import shutil

import pytest

from experiments import disclosure_tables, docs_blocks

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


PAGE = "before\n<!-- measured: one -->\nold\n<!-- end -->\nafter\n"


@pytest.mark.parametrize("names", [(), ("two",), ("one", "two")])
def test_blocks_that_do_not_match_the_page_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="each of the blocks"):
        docs_blocks.rewritten(PAGE, {name: lambda: "" for name in names})


def test_a_pages_blocks_may_stand_on_its_page_of_tables(tmp_path: pathlib.Path) -> None:
    page, tables = tmp_path / "a.md", tmp_path / "results" / "a.md"
    tables.parent.mkdir()
    page.write_text(PAGE)
    tables.write_text(PAGE.replace("one", "two"))
    blocks = {"one": lambda: "![](images/b.svg)", "two": lambda: "![](images/c.svg)"}
    for _ in range(2):
        assert docs_blocks.rewrite(page, blocks) == page
        assert "](images/b.svg)" in page.read_text()
        assert "](../images/c.svg)" in tables.read_text()
        assert page.read_text().startswith("before\n") and "old" not in page.read_text()
    with pytest.raises(ValueError, match="each of the blocks"):
        docs_blocks.rewrite(page, {"one": lambda: ""})
