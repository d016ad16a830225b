"""docs/influence.md is what its kept outcomes give, with every budget named."""

import pathlib
import shutil

import pytest

from experiments.influence import docs_page

DOCS = pathlib.Path(__file__).parents[3] / "docs"


def test_the_page_is_what_the_kept_outcomes_give(tmp_path: pathlib.Path):
    shutil.copy(DOCS / "influence.md", tmp_path)
    shutil.copytree(DOCS / "results" / "influence", tmp_path / "results" / "influence")
    written = docs_page.rewrite(tmp_path).read_text()
    assert written == (DOCS / "influence.md").read_text()


@pytest.mark.hole
def test_g10_every_table_at_a_vote_budget_shows_the_contributors_budget_too():
    kept = list(docs_page.kept_outcomes(DOCS / "results" / "influence").values())
    for write in (docs_page.table, docs_page.ablation, docs_page.growth):
        head, _, *rows = write(kept).splitlines()
        columns = [cell.strip() for cell in head.split("|")]
        place = columns.index("ε and δ of a contributor's batch")
        assert "ε per vote" in columns[:place]
        epsilons = {row.split("|")[place].strip() for row in rows if row}
        assert epsilons <= {"284, 1e-05", "∞"} and "284, 1e-05" in epsilons
    page = " ".join((DOCS / "influence.md").read_text().split())
    assert "Runs in which both budgets are 1 are not measured yet" in page
