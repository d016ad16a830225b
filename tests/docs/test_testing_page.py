"""docs/testing.md shows the results, and the reasons that are listed."""

import pathlib
import re
import shutil

from tests.faults import page as faults
from tests.mutants import page, parts

ROOT = pathlib.Path(__file__).parents[2]


def test_the_page_is_what_the_results_say(
    tmp_path: pathlib.Path,
) -> None:
    docs = shutil.copytree(ROOT / "docs", tmp_path / "docs")
    page.write_pages(docs)
    for name in ("testing.md", "results/testing.md"):
        assert (docs / name).read_text() == (ROOT / "docs" / name).read_text()


def test_a_fault_names_tests_that_exist() -> None:
    for fault in faults.FAULTS.values():
        names = re.findall(r"def (test_\w+)", (ROOT / fault.file).read_text())
        assert any(fault.word in name for name in names), fault


def test_the_parts_name_modules_and_tests_that_exist() -> None:
    for part in parts.PARTS.values():
        for module in part.modules:
            assert (ROOT / "fedsvp_jax" / module).is_file()
        files = [path for name in part.tests for path in files_of(ROOT / name)]
        names = re.findall(r"def (test_\w+)", "".join(f.read_text() for f in files))
        for word in part.left_out:
            assert any(word in name for name in names), word


def files_of(path: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path.glob("test_*.py")) if path.is_dir() else [path]


def test_the_code_of_the_equivalent_mutants_is_there() -> None:
    for module, function, before, _ in page.reasons():
        source = (ROOT / "fedsvp_jax" / module).read_text()
        assert before in " ".join(map(str.strip, source.splitlines())), before
        assert f"def {function.rpartition('.')[2]}(" in source


def test_a_score_leaves_out_equivalent_mutants_and_has_an_interval_when_sampled() -> (
    None
):
    change = {"module": "m.py", "function": "f", "before": "a", "after": "b"}
    other = {**change, "after": "c", "status": "survived"}
    left = [{**change, "status": "survived"}, other]
    known = {("m.py", "f", "a", "b"): "the same"}
    whole = {"mutants": 10, "run": 10, "killed": 8, "left": left}
    table = page.scores_table({"m.py": whole}, known)
    assert "| `m.py` | 10 | 10 | 8 | 1 | 1 | 88.9 % |" in table
    sampled = page.scores_table({"m.py": {**whole, "mutants": 99}}, known)
    low, high = page.wilson(8, 9)
    assert f"88.9 % ({100 * low:.0f} to {100 * high:.0f})" in sampled
    assert 0.5 < low < 8 / 9 < high < 1
