"""The performance page: its tables are what the measured files say."""

import pathlib
import shutil

from experiments.benchmark import docs_page
from fedsvp_jax.report import text_table

ROOT = pathlib.Path(__file__).parents[3]


def test_what_is_not_measured_says_so(tmp_path: pathlib.Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs)
    for file in (docs / "results").iterdir():
        if file.suffix in (".json", ".jsonl") or "epsilon_" in file.name:
            file.unlink()
    for page in docs_page.rewrite(docs):
        both = [page, docs / "results" / page.name]
        texts = [path.read_text() for path in both if path.exists()]
        assert any(text_table.MISSING in text for text in texts)
