"""What the pages name exists: tests, and files of the repository."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "BUILD_NOTES.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in (path.stem, *re.findall(r"def (test_\w+)\(", path.read_text()))
}
_TEST = re.compile(r"`(test_\w+)`")
_PATH = re.compile(r"`((?:docs|experiments|fedsvp_jax|requirements|tests)/[\w./]+)`")
PLACEHOLDER = "NAME"


def known(name: str) -> bool:
    return name in TESTS or PLACEHOLDER in name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_and_file_that_a_page_names_exists(page: pathlib.Path) -> None:
    text = page.read_text()
    assert not [name for name in _TEST.findall(text) if not known(name)]
    paths = [path for path in _PATH.findall(text) if PLACEHOLDER not in path]
    assert not [path for path in paths if not (ROOT / path).exists()]
