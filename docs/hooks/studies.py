"""MkDocs hook: pages and pictures of finished studies, of experiments/studies.

Links are those that GitHub follows; on the site the studies lie beside the other pages.
"""

import pathlib
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).parents[2]
STUDIES = ROOT / "experiments" / "studies"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds studies/NAME/README.md and what it shows."""
    for path in sorted(STUDIES.rglob("*")):
        if path.suffix in (".md", ".png", ".svg"):
            uri = f"studies/{path.relative_to(STUDIES)}"
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turns links between docs/ and the studies into those of the site."""
    text = markdown.replace("../experiments/studies/", "studies/")
    return text.replace("../../../docs/", "../../")
