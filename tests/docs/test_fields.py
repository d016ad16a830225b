"""docs/appendix/fields.md names every field that is written, and no other."""

import csv
import json
import pathlib
import re
from collections.abc import Iterable
from typing import Any

import pytest
from small_runs import (  # noqa: F401
    digits,
    read_rows,
    shared_rounds,
    small,
)

from experiments import printed
from fedsvp_jax import report, run
from fedsvp_jax.run import records
from fedsvp_jax.run.sweep import SweepPlan, sweep

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "appendix" / "fields.md"
# Fields whose keys are adversaries, accountings, classes or clients.
BY_NAME = ("epsilon_spent", "status", "rdp_by_adversary", "risk", "counts")

pytestmark = [pytest.mark.hole, pytest.mark.usefixtures("shared_rounds")]


def sections() -> dict[str, set[str]]:
    """The names that stand in code in the section of each file."""
    by_file: dict[str, set[str]] = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        names = set(re.findall(r"`([a-z]\w*)`", text))
        for file in re.findall(r"\w+\.(?:jsonl|json|csv)", title):
            by_file[file] = names
    by_file["results.jsonl"] |= by_file["metrics.jsonl"]
    by_file["cells.json"] |= by_file["summary.json"]
    by_file["epsilon.json"] |= by_file["summary.json"]
    return by_file


def fields(value: Any) -> Iterable[str]:
    """Names in a file's objects, of their objects too."""
    for item in value if isinstance(value, list) else [value]:
        for name, inner in item.items() if isinstance(item, dict) else ():
            yield name
            names = name in BY_NAME and isinstance(inner, dict)
            yield from fields([*inner.values()] if names else inner)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Names by file of a small run, and of a sweep with its tables and pages."""
    place = tmp_path_factory.mktemp("fields")
    promise = {"total_epsilon": 50.0, "num_rounds": 2, "validation_examples": 40}
    config = small(**promise)
    run.train(config, place / "run", dataset=digits())
    plan = SweepPlan(("none", "gaussian"), (), (0, 1), total_epsilons=(5.0,))
    base = small(num_rounds=2, clipping="update_clip", mechanism="gaussian")
    sweep(base, plan, place / "sweep", dataset=digits())
    report.write_sweep_report(place / "sweep")
    printed.sweep_tables(place / "sweep")
    with open(place / "sweep" / "table.csv") as file:
        by_file = {"table.csv": {*next(csv.reader(file))}}
    for name in ("run/metrics.jsonl", "run/clients.jsonl", "sweep/results.jsonl"):
        rows = read_rows(place / name)
        by_file[name.split("/")[1]] = {*fields(rows)}
    for name in ("run/summary.json", "sweep/cells.json", "sweep/epsilon.json"):
        content = json.loads((place / name).read_text())
        by_file[name.split("/")[1]] = {*fields(content)}
    return by_file


def test_every_field_that_is_written_is_described(
    written: dict[str, set[str]],
) -> None:
    """Of 33 columns of table.csv and of epsilon.json few were."""
    described = sections()
    missing = {file: names - described[file] for file, names in written.items()}
    assert not any(missing.values()), missing


def test_every_field_that_is_described_is_one_of_the_programs(
    written: dict[str, set[str]],
) -> None:
    described, everywhere = sections(), set().union(*written.values())
    assert described.keys() == written.keys()
    assert described["table.csv"] == written["table.csv"]
    rows = PAGE.read_text().partition("## summary.json")[0]
    entries = "".join(re.findall(r"^- (.*?): ", rows, re.MULTILINE))
    named = set(re.findall(r"`(\w+)`", entries))
    made = written["metrics.jsonl"] | written["clients.jsonl"]
    others = {"influence_filter", *records._OF_ESTIMATES}
    assert named == made | others
    texts = [path.read_text() for path in (ROOT / "fedsvp_jax").rglob("*.py")]
    quoted = {name for text in texts for name in re.findall(r"\b[a-z]\w*\b", text)}
    assert not set().union(*described.values()) - everywhere - quoted
