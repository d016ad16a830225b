"""The command computes a federation once, stamps it, and hides effects till the end."""

import pathlib

import pytest
from commands import ROOT

from experiments.data_value import __main__ as command
from experiments.data_value import cell, docs_page
from fedsvp_jax.data import sources


def test_the_command_computes_what_is_missing_and_shows_no_effect_before_the_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = sources.load("digits")
    asked = []

    def compute(data: object, seed: int) -> dict[str, object]:
        asked.append(seed)
        return {"no_noise": {"area": 0.8}}

    monkeypatch.setattr(cell, "compute", compute)
    monkeypatch.setattr(command.sources, "load", lambda *_: digits)
    for module in (command, docs_page):
        monkeypatch.setattr(module, "FEDERATIONS", 2)
    results = tmp_path / "results" / "data_value"
    for _ in range(2):  # the second time all rows are there
        command.compute_missing(results, tmp_path)
    assert asked == [0, 0, 1, 1]
    rows = docs_page.rows_of(results)
    assert rows["adult"][1]["provenance"]["data"]["sha256"] == digits.fingerprint
    for name in ("data_value.md", "results/data_value.md"):
        (tmp_path / name).write_text((ROOT / "docs" / name).read_text())
    monkeypatch.setattr(docs_page, "FEDERATIONS", 3)
    docs_page.rewrite(tmp_path)
    page = (tmp_path / "results" / "data_value.md").read_text()
    assert "2 mnist, 2 adult, of 3 each. **Unfinished: no verdict.**" in page
    assert page.count("No verdict before all rows are there.") == 2
