"""The page of an attack, of influence, of a bound: whatever its files hold."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from fedsvp_jax.report import figures_page

pytest.importorskip("plotly", reason="pages need the extra [report]")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "attack"
    place.mkdir()
    config = {"attack": "<i>mine</i>", "dataset": "digits", "seed": 0}
    (place / "config.json").write_text(json.dumps(config))
    results = {
        "num_parameters": 22602,
        "nested": {"recall": 0.97125, "names": ["a", "b"]},
        "rows": [{"client": 3, "error": 0.25}, {"client": 4, "error": None, "x": [1]}],
    }
    (place / "results.json").write_text(json.dumps(results))
    Image.new("RGB", (40, 20), "red").save(place / "grid.png")
    return place


def test_pictures_numbers_and_tables_are_on_the_page(folder: Path) -> None:
    text = figures_page.write_figures_report(folder).read_text()
    assert 'src="data:image/png;base64,' in text and 'alt="grid"' in text
    assert "<dt>nested.recall</dt><dd>0.9712</dd>" in text
    assert "&lt;i&gt;mine&lt;/i&gt; on digits" in text and "<i>mine" not in text
    assert "experiments.train" not in text  # nothing tells which command it was
    found = re.search(r'id="data">(.*?)</script>', text)
    assert found
    (table,) = json.loads(found.group(1))["plots"]
    assert table["columns"] == {
        "client": [3, 4],
        "error": [0.25, None],
        "x": [None, "[1]"],
    }


def test_a_long_table_is_cut_on_the_page_and_whole_in_its_download(
    folder: Path,
) -> None:
    rows = [{"i": i} for i in range(figures_page.MAX_ROWS + 7)]
    (folder / "results.json").write_text(json.dumps({"rows": rows}))
    text = figures_page.write_figures_report(folder).read_text()
    assert text.count("<tr>") < figures_page.MAX_ROWS + 20
    assert f"the first {figures_page.MAX_ROWS} of {len(rows)} rows" in text
    assert f",{len(rows) - 1}]" in text


def test_a_folder_of_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="nothing to report on"):
        figures_page.write_figures_report(tmp_path)
    assert not (tmp_path / "report.html").exists()
