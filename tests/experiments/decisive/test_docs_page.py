"""docs/decisive.md says what the rows say, by the rules that were registered."""

import json
import pathlib

import pytest

from experiments.decisive import docs_page, registered

DOCS = pathlib.Path(__file__).parents[3] / "docs"


def keep(results: pathlib.Path, arm: str, outcome: str, numbers: list[float]) -> None:
    keep_rows(results, arm, [{outcome: number} for number in numbers])


def keep_rows(results: pathlib.Path, arm: str, rows: list[dict[str, float]]) -> None:
    """Rows of the seeds 0, 1, …, the last of them first."""
    lines = [json.dumps({"seed": seed, **row}) for seed, row in enumerate(rows)]
    (results / f"{arm}.jsonl").write_text("\n".join([*reversed(lines), ""]))


def test_the_registration_names_every_hypothesis_and_what_it_must_be_worth() -> None:
    text = (DOCS / "appendix" / "preregistration.md").read_text()
    for one in registered.HYPOTHESES:
        line = next(
            line
            for line in text.splitlines()
            if line.startswith("|") and one.name in line
        )
        worths = line.split("|")[-2]
        assert f"{one.worth:g}" in worths
    assert f"all {len(registered.HYPOTHESES)} hypotheses" in text


def test_differences_are_paired_by_seed(tmp_path: pathlib.Path) -> None:
    hypothesis = next(one for one in registered.HYPOTHESES if one.name == "H2b2")
    keep(tmp_path, hypothesis.arm, "membership_area", [0.5, 0.6, 0.7])
    keep(tmp_path, "clients_constant", "membership_area", [0.6, 0.5])
    found = docs_page.values_of(tmp_path, hypothesis)
    assert found == pytest.approx([10.0, -10.0])  # less area is better


def test_rows_decide_and_hypotheses_without_rows_are_undecided(
    tmp_path: pathlib.Path,
) -> None:
    spread_of = [0.01 * number for number in range(-5, 5)]
    keep(tmp_path, "records_even", "private_accuracy", [0.8] * 10)
    better = [0.85 + number for number in spread_of]
    keep(tmp_path, "records_public", "private_accuracy", better)
    worse = [0.7 + number for number in spread_of]
    keep(tmp_path, "records_released", "private_accuracy", worse)
    found = {one.hypothesis.name: one for one in docs_page.findings(tmp_path)}
    assert found["H3a"].verdict == "yes"
    assert found["H3b"].verdict == "no"
    assert found["H3c"].verdict == found["H1a1"].verdict == "undecided"
    text = docs_page.table(tmp_path)
    assert "| H3b | budget by released ψ | -10.50 |" in text
    told = docs_page.answer(tmp_path)
    assert told.startswith("**Yes, in H3a** of the 10 registered comparisons")
    assert "spread: 1 no, 1 not measured yet, 1 yes." in told
    keep(tmp_path, "records_public", "private_accuracy", worse)
    told = docs_page.answer(tmp_path)
    assert told.startswith("**Not shown.**") and "(2 no, 8 not measured yet)" in told
    for hypothesis in registered.HYPOTHESES:
        for arm in {hypothesis.arm, hypothesis.against} - {None}:
            accuracies = ("accuracy", "private_accuracy", "membership_area")
            row = dict.fromkeys(accuracies, 0.5) | {"rank_correlation": 0.0}
            row |= {"value_reliability": 0.9, "risk_reliability": 0.9}
            keep_rows(tmp_path, arm, [row] * 3)
    assert docs_page.answer(tmp_path).startswith("None of the 10")
