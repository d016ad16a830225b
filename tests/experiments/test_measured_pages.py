"""Every page with measured parts is what its writer makes of its kept files."""

import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from commands import ROOT

from experiments import data_table
from experiments.attack import docs_page as attack
from experiments.benchmark import docs_page as benchmark
from experiments.data_value import docs_page as data_value
from experiments.decisive import docs_page as decisive
from experiments.features import docs_page as features
from experiments.influence import docs_page as influence
from experiments.reproduce import evidence, tables
from experiments.shapley import docs_page as shapley
from experiments.utility import docs_page as utility


def reproduction(docs: pathlib.Path) -> pathlib.Path:
    return tables.rewrite(docs, evidence.load(docs / "results" / "reproduction"))


WRITERS = {
    "attack": attack.rewrite,
    "benchmark": benchmark.rewrite,
    "data_table": data_table.rewrite,
    "data_value": data_value.rewrite,
    "decisive": decisive.rewrite,
    "features": features.rewrite,
    "influence": influence.rewrite,
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
        for one in (page, docs / "results" / page.name):
            kept = ROOT / "docs" / one.relative_to(docs)
            assert not kept.exists() or one.read_text() == kept.read_text()
