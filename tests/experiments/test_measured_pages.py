"""Every page with measured parts is what its writer makes of its kept files."""

import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from commands import ROOT

from experiments import optimizers
from experiments.attack import docs_page as attack
from experiments.benchmark import docs_page as benchmark
from experiments.decisive import docs_page as decisive
from experiments.features import docs_page as features
from experiments.influence import docs_page as influence
from experiments.reproduce import evidence, tables
from experiments.shapley import docs_page as shapley
from experiments.utility import docs_page as utility


def reproduction(docs: pathlib.Path) -> pathlib.Path:
    page = docs / "reproduction.md"
    kept = evidence.load(docs / "results" / "reproduction")
    page.write_text(tables.render(page.read_text(), kept))
    return page


WRITERS = {
    "attack": attack.rewrite,
    "benchmark": benchmark.rewrite,
    "decisive": decisive.rewrite,
    "features": features.rewrite,
    "influence": influence.rewrite,
    "optimizers": optimizers.write_page,
    "reproduction": reproduction,
    "shapley": shapley.rewrite,
    "utility": utility.rewrite,
}


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return shutil.copytree(ROOT / "docs", tmp_path_factory.mktemp("copy") / "docs")


@pytest.mark.parametrize("name", WRITERS)
def test_a_page_is_what_its_kept_files_give(name: str, docs: pathlib.Path) -> None:
    write: Callable[[pathlib.Path], Any] = WRITERS[name]
    written = write(docs)
    for page in written if isinstance(written, list) else [written]:
        assert page.read_text() == (ROOT / "docs" / page.name).read_text()
