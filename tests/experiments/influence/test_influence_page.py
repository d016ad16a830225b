"""docs/influence.md is what its kept outcomes give, with every budget named."""

import json
import pathlib

import pytest

from experiments.influence import docs_page, figures

DOCS = pathlib.Path(__file__).parents[3] / "docs"


@pytest.mark.hole
def test_g10_every_table_at_a_vote_budget_shows_the_contributors_budget_too():
    kept = list(figures.kept_outcomes(DOCS).values())
    for write in (docs_page.table, docs_page.ablation, docs_page.growth):
        head, _, *rows = write(kept).splitlines()
        columns = [cell.strip() for cell in head.split("|")]
        place = columns.index("ε and δ of a contributor's batch")
        assert "ε per vote" in columns[:place]
        epsilons = {row.split("|")[place].strip() for row in rows if row}
        assert "284, 1e-05" in epsilons
        assert all(one == "∞" or float(one.split(",")[0]) > 0 for one in epsilons)


def test_runs_with_both_budgets_at_one_are_told_beside_a_guess():
    (outcome, *_) = figures.kept_outcomes(DOCS).values()
    assert docs_page.both_at_one([outcome]).endswith("not measured yet.")
    private = outcome["config"] | {"vote_epsilon": 1.0, "contribution_noise": 7.462}
    told = docs_page.both_at_one([{**outcome, "config": private}])
    recall = 100 * outcome["summary"]["recall"]
    assert f"recall {recall:.2f}" in told and "precision of 30%" in told


def test_a_figures_points_are_kept_where_the_page_shows_it(tmp_path: pathlib.Path):
    docs, run = tmp_path / "docs", tmp_path / "run"
    for folder in (docs / "results" / "influence", docs / "images", run):
        folder.mkdir(parents=True)
    (docs / "influence.md").write_text("![](images/influence_mine_figure4.svg)")
    paths = dict.fromkeys(("data_dir", "features_dir"))
    (run / "config.json").write_text(json.dumps(paths | {"seed": 0}))
    (run / "provenance.json").write_text('{"commit": "0"}')
    points = {"figure3": {}, "figure4": [[3, 1], [0, 4]], "recall": 1.0}
    (run / "summary.json").write_text(json.dumps(points))
    docs_page.keep("mine", run, docs)
    kept = figures.kept_outcomes(docs)["mine"]
    assert kept["config"] == {"seed": 0} and kept["provenance"] == {"commit": "0"}
    assert list(kept["summary"]) == ["figure4", "recall"]
    (drawn,) = figures.draw_kept(docs)
    assert drawn.name == "influence_mine_figure4.svg" and "<svg" in drawn.read_text()
