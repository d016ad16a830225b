"""Every page with measured parts is what its writer makes of its kept files."""

import pathlib
import shutil

import pytest
from commands import ROOT

from experiments import pages

WRITTEN = [name for name in pages.WRITERS if name != "guarantees"]


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return shutil.copytree(ROOT / "docs", tmp_path_factory.mktemp("copy") / "docs")


@pytest.mark.parametrize("name", WRITTEN)
def test_a_page_is_what_its_kept_files_give(name: str, docs: pathlib.Path) -> None:
    found = pages.writer(name).rewrite(docs)
    for page in found if isinstance(found, list) else [found]:
        for one in (page, docs / "results" / page.name):
            kept = ROOT / "docs" / one.relative_to(docs)
            assert not kept.exists() or one.read_text() == kept.read_text()


@pytest.mark.parametrize("names", [[], ["decisive"], ["attacks", "influence"]])
def test_runs_are_kept_for_one_page_that_shows_runs(
    names: list[str], tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ValueError, match="keep must stand beside one page"):
        pages.keep(names, ["a=b"], tmp_path)
