"""What the pages name exists: tests, and files of the repository."""

import dataclasses
import json
import pathlib
import re
import tomllib

import numpy as np
import pytest
from scipy import stats

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.round.round_score import Scores

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "BUILD_NOTES.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in (path.stem, *re.findall(r"def (test_\w+)\(", path.read_text()))
}
_TEST = re.compile(r"`(test_\w+)`")
_PATH = re.compile(r"`((?:docs|experiments|fedsvp_jax|requirements|tests)/[\w./]+)`")
PLACEHOLDER = "NAME"


FIELDS = {"test_scores", "test_rows"}  # of cells.json, and no tests


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_and_file_that_a_page_names_exists(page: pathlib.Path) -> None:
    text = page.read_text()
    named = [name for name in _TEST.findall(text) if PLACEHOLDER not in name]
    assert TESTS.union(Scores._fields, FIELDS).issuperset(named)
    paths = [path for path in _PATH.findall(text) if PLACEHOLDER not in path]
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_every_picture_that_a_page_shows_exists() -> None:
    for page in PAGES:
        for name in re.findall(r"\]\(([\w/]+\.(?:svg|png))\)", page.read_text()):
            assert (page.parent / name).exists(), (page, name)


def test_the_figures_of_the_leading_table_stand_on_the_pages_that_it_links() -> None:
    """ε, accuracy and accuracy without noise of docs/useful_model.md."""
    page = ROOT / "docs" / "useful_model.md"
    rows = re.findall(
        r"^\|(.+)\|.*\]\(([\w./]+/README\.md)", page.read_text(), re.MULTILINE
    )
    assert len(rows) == 7
    for cells, linked in rows:
        table = (page.parent / linked).read_text()
        for figure in cells.split("|")[2:5]:
            assert re.search(rf"(?<![\d.]){re.escape(figure.strip())}(?!\d)", table)


@pytest.mark.hole
def test_the_table_of_hospitals_has_the_means_of_the_rows_that_are_kept() -> None:
    """AUC ± half of its 95 % interval, and log loss; `central` is of an older file."""
    kept = ROOT / "experiments" / "studies" / "hospitals"
    rows = [
        json.loads(line)
        for name in ("separate.jsonl", "whole_numbers.jsonl")
        for line in (kept / name).read_text().splitlines()
    ]
    page = (ROOT / "docs" / "useful_model.md").read_text()
    arms = {
        "whole_server": "| the server sees",
        "whole_third": "| `--goal=",
        "central": "| central",
    }
    for arm, start in arms.items():
        (line,) = (line for line in page.splitlines() if line.startswith(start))
        for epsilon, cell in zip((1, 3, 8), line.split("|")[2:5], strict=True):
            of_table = [
                row["arms"][arm]
                for row in rows
                if (row["table"], row["epsilon"]) == ("medpar", epsilon)
                and arm in row["arms"]
                and ("central" in row["arms"]) == (arm == "central")
            ]
            areas, losses = (
                np.array([scores[name] for scores in of_table])
                for name in ("auc", "log_loss")
            )
            half = stats.t.ppf(0.975, len(areas) - 1) * stats.sem(areas)
            written = f"{areas.mean():.3f} ± {half:.3f} ({losses.mean():.2f})"
            assert cell.strip() == written.replace("0.", ".")


@pytest.mark.hole
def test_the_differences_of_the_study_of_hospitals_are_those_of_its_rows() -> None:
    """They were typed from a script that no file keeps."""
    kept = ROOT / "experiments" / "studies" / "hospitals"
    page = (kept / "README.md").read_text()
    scores: dict[tuple[str, float, int], dict[str, dict[str, float]]] = {}
    for name in ("separate", "all_rows", "third", "whole_numbers"):
        for line in (kept / f"{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            key = row["table"], row["epsilon"], row["provenance"]["seed"]
            arms = row["arms"]
            if name == "separate":  # whose private arms were run again
                arms = {arm: arms[arm] for arm in ("central",) if arm in arms}
            scores.setdefault(key, {}).update(arms)

    def said(epsilon: int, arm: str, other: str) -> str:
        areas = [
            scores["medpar", epsilon, seed][arm]["auc"]
            - scores["medpar", epsilon, seed][other]["auc"]
            for seed in range(20)
        ]
        half = stats.t.ppf(0.975, 19) * stats.sem(areas)
        written = f"{np.mean(areas):+.4f} ± {half:.4f}".replace("0.", ".")
        return written.replace("-", "−")

    third, whole = (
        page.partition(f"{{#{anchor}}}")[2] for anchor in ("third", "whole-numbers")
    )
    for epsilon in (1, 3, 8):
        pairs = (("third", "central"), ("third", "secure"))
        cells = [said(epsilon, *pair) for pair in pairs]
        (line,) = re.findall(rf"\| medpar \| {epsilon} .*", third.partition("##")[0])
        assert [cell.strip() for cell in line.split("|")[5:7]] == cells
        arms = ("whole_third", "central"), ("whole_server", "central")
        arms += ("whole_third", "third"), ("whole_server", "server")
        cells = [said(epsilon, *pair) for pair in arms]
        (line,) = re.findall(rf"\| medpar \| {epsilon} .*", whole.partition("##")[0])
        assert [cell.strip() for cell in line.split("|")[6:10]] == cells
    useful = (ROOT / "docs" / "useful_model.md").read_text()
    assert f"of AUC is {said(3, 'whole_third', 'central')}." in useful
    for arm, words in (
        ("whole_third", "accuracy is {} with secure"),
        ("whole_server", "{} against the server"),
    ):
        mean = np.mean([scores["medpar", 3, s][arm]["accuracy"] for s in range(20)])
        assert words.format(f"{mean:.3f}"[1:]) in useful


@pytest.mark.hole
def test_the_start_page_says_what_the_study_found() -> None:
    study = (ROOT / "experiments/studies/reproduction/README.md").read_text()
    (cells, within) = re.findall(r"of the (\d+) published cells; (\d+) agree", study)[0]
    start = " ".join((ROOT / "docs" / "index.md").read_text().split())
    assert f"None of the papers' {cells} accuracies" in start and within == "0"


# Of absl, Slurm and examples.
OF_OTHERS = {"flagfile", "verbosity", "array", "wrap", "folder", "late_multiplier"} | {
    "state"
}


def flags_of_commands() -> set[str]:
    """Settings, the flags of flags.toml and attacks.toml, and those of the code."""
    experiments = ROOT / "experiments"
    by_command = tomllib.loads((experiments / "flags.toml").read_text())
    of_attacks = tomllib.loads((experiments / "attack" / "attacks.toml").read_text())
    tables = [*by_command.values(), *(of["flags"] for of in of_attacks.values())]
    code = "".join(path.read_text() for path in experiments.rglob("*.py"))
    defined = re.findall(r"DEFINE_\w+\(\s*\"(\w+)\"", code)
    settings = [field.name for field in dataclasses.fields(ExperimentConfig)]
    return {*settings, *defined, *(name for table in tables for name in table)}


@pytest.mark.hole
def test_every_flag_that_a_page_or_a_study_types_is_one_of_today() -> None:
    """A study typed --sensitivity, which had become --clipping."""
    known = flags_of_commands() | OF_OTHERS
    studies = sorted((ROOT / "experiments" / "studies").rglob("*.md"))
    for page in [*PAGES, *studies]:
        typed = re.findall(r"(?<![\w-])--(?!xla_)([a-z]\w*)=", page.read_text())
        assert known.issuperset(typed), (page, {*typed} - known)
