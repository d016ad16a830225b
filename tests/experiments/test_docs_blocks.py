"""Pages whose measured parts are written by a program."""

from pathlib import Path

import pytest

from experiments import docs_blocks

PAGE = "before\n<!-- measured: one -->\nold\n<!-- end -->\nafter\n"


@pytest.mark.parametrize("names", [(), ("two",), ("one", "two")])
def test_blocks_that_do_not_match_the_page_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="each of the blocks"):
        docs_blocks.rewritten(PAGE, {name: lambda: "" for name in names})


def test_a_pages_blocks_may_stand_on_its_page_of_tables(tmp_path: Path) -> None:
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
