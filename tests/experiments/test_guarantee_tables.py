"""The tables of docs/privacy.md and docs/methods.md come from files, not by hand."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest

from experiments import guarantee_tables

DOCS = pathlib.Path(__file__).parents[2] / "docs"
TABLES = "results/guarantees.md"
BLOCK = re.compile("<!-- measured: .*?<!-- end -->", re.DOTALL)


@pytest.mark.hole
def test_g16_the_pages_are_what_the_kept_files_and_the_library_give(
    tmp_path: pathlib.Path,
):
    kept = DOCS / "results" / "privacy"
    shutil.copytree(kept, tmp_path / "results" / "privacy")
    pages = (TABLES,)
    for name in pages:
        shutil.copy(DOCS / name, tmp_path / name)
    guarantee_tables.rewrite(tmp_path)
    for name in pages:
        assert (tmp_path / name).read_text() == (DOCS / name).read_text()
    for name in ("composition", "release_cost"):
        written, computed = (
            json.loads((folder / f"{name}.json").read_text())["rows"]
            for folder in (kept, tmp_path / "results" / "privacy")
        )
        for old, new in zip(written, computed, strict=True):
            numbers = [key for key, value in old.items() if isinstance(value, float)]
            np.testing.assert_allclose(
                [old[key] for key in numbers], [new[key] for key in numbers], rtol=1e-6
            )


@pytest.mark.hole
@pytest.mark.parametrize(
    "name", ["methods.md", "privacy.md", TABLES, "results/methods.md", "attacks.md"]
)
def test_g16_a_table_by_hand_holds_no_measured_number(name: str):
    """What stands outside the blocks defines things; no cell has three digits."""
    by_hand = BLOCK.sub("", (DOCS / name).read_text())
    cells = [
        cell.strip()
        for line in by_hand.splitlines()
        if line.startswith("|")
        for cell in line.strip("|").split("|")
    ]
    measured = [cell for cell in cells if re.fullmatch(r"[−-]?\d*\.\d{3,}.*", cell)]
    assert not measured
