"""The site: built strictly, nothing fetched; the notebook runs as it is shown."""

import dataclasses
import json
import pathlib
import re
import runpy
import subprocess
import sys

import nbformat
import pytest
from commands import succeeds
from nbclient import NotebookClient

from fedsvp_jax.config import ExperimentConfig

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


@pytest.mark.slow
def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: pathlib.Path) -> None:
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert {"index.html", "tutorial.html", "api.html"} <= {page.name for page in pages}
    for page in pages:
        text = page.read_text()
        fetched = re.findall(r'<(?:script|img|iframe)[^>]*src="(https?:[^"]*)', text)
        fetched += re.findall(
            r'<link[^>]*rel="stylesheet"[^>]*href="(https?:[^"]*)', text
        )
        assert not fetched, page
    api = (tmp_path / "api.html").read_text()
    for name in ("run.train", "register_mechanism", "exact_shapley"):
        assert name in api
    tutorial = (tmp_path / "tutorial.html").read_text()
    assert "Why did this upload get this much noise?" in tutorial
    assert 'src="tutorial_0.png"' in tutorial
    assert (tmp_path / "tutorial_0.png").stat().st_size > 1000


def test_the_page_of_settings_names_every_setting_its_default_and_its_limits() -> None:
    hook = runpy.run_path(str(ROOT / "docs" / "hooks" / "settings.py"))
    page = hook["markdown"]()
    for field in dataclasses.fields(ExperimentConfig):
        assert page.count(f"\n| `{field.name}` | ") == 1, field.name
    assert "\n| `seed` | `0` | integer, at least 0 | Seed of everything" in page
    assert "| `num_clients` | `100`; digits: `30` | integer, at least 1 |" in page
    assert "Only read with `batches=poisson`." in page
    assert page.count("\n## ") > 10


def test_the_notebooks_code_runs(tmp_path: pathlib.Path) -> None:
    """As a script; in a kernel it starts twice as long, and is slow."""
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    lines = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    code = re.sub("^%.*$", "", lines, flags=re.MULTILINE)
    succeeds("-c", f"import os\nos.chdir({str(tmp_path)!r})\n{code}")
    assert (tmp_path / "runs" / "tutorial_sweep" / "results.jsonl").is_file()


@pytest.mark.slow
def test_the_notebook_runs_in_a_kernel(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert (tmp_path / "runs" / "tutorial_sweep" / "results.jsonl").is_file()


def test_the_notebook_is_shown_with_what_it_prints() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code)
    outputs = [output for cell in code for output in cell["outputs"]]
    assert "error" not in {output["output_type"] for output in outputs}
