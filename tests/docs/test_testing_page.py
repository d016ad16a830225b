"""The tables of docs/results/testing.md are of kept results; what they name exists."""

import json
import pathlib
import re
import shutil

import pytest

from tests.mutants import page, parts

ROOT = pathlib.Path(__file__).parents[2]


def test_the_page_is_what_the_results_say(tmp_path: pathlib.Path) -> None:
    docs = shutil.copytree(ROOT / "docs", tmp_path / "docs")
    page.write_pages(docs)
    for name in ("testing.md", "results/testing.md"):
        assert (docs / name).read_text() == (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("part", parts.PARTS.values(), ids=parts.PARTS)
def test_a_part_names_modules_and_tests_that_exist(part: parts.Part) -> None:
    for module in part.modules:
        assert (ROOT / "fedsvp_jax" / module).is_file()
    files = [
        file
        for path in map(ROOT.joinpath, part.tests)
        for file in (path.glob("test_*.py") if path.is_dir() else [path])
    ]
    names = re.findall(r"def (test_\w+)", "".join(file.read_text() for file in files))
    assert all(any(word in name for name in names) for word in part.left_out)


def test_an_equivalent_mutant_is_of_todays_code_or_of_a_kept_row() -> None:
    results = json.loads((ROOT / "docs" / page.MUTANTS).read_text())
    kept = {page.key(one) for row in results.values() for one in row["left"]}
    for mutant in set(page.reasons()) - kept:
        module, function, before, _ = mutant
        source = (ROOT / "fedsvp_jax" / module).read_text()
        assert before in " ".join(map(str.strip, source.splitlines())), before
        assert f"def {function.rpartition('.')[2]}(" in source


def test_a_score_leaves_out_equivalent_mutants_and_has_an_interval_when_sampled() -> (
    None
):
    """Wilson's of 8 of 9 is .565 to .980."""
    change = {"module": "m.py", "function": "f", "before": "a", "after": "b"}
    kept = {
        "mutants": 10,
        "run": 10,
        "killed": 8,
        "left": [change, {**change, "after": "c"}],
    }
    known = {page.key(change): "the same"}
    assert "| 10 | 10 | 8 | 1 | 1 | 88.9 % |" in page.scores_table(
        {"m.py": kept}, known
    )
    table = page.scores_table({"m.py": kept | {"mutants": 99}}, known)
    assert "88.9 % (57 to 98)" in table
