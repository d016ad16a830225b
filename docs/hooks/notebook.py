"""MkDocs hook: a notebook under docs/ is a page, its cells and outputs as Markdown."""

import base64
import json
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replaces NAME.ipynb by NAME.md and the pictures that it shows."""
    for source in [f for f in files if f.src_uri.endswith(".ipynb")]:
        stem = source.src_uri.removesuffix(".ipynb")
        text, pictures = markdown(json.loads(source.content_string), stem)
        made = {f"{stem}.md": text, **pictures}
        for uri, content in made.items():
            files.append(File.generated(config, uri, content=content))
    return files


def markdown(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """The notebook's page and its pictures by name."""
    paragraphs: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            paragraphs.append(source)
            continue
        paragraphs.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}_{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                paragraphs.append(f"![what the cell draws]({name.split('/')[-1]})")
            elif "text/html" in data:
                shown = "".join(data["text/html"])
                paragraphs.append(f'<div class="wide">{shown}</div>')
            else:
                shown = "".join(output.get("text") or data.get("text/plain", ""))
                paragraphs.append(f"```text\n{shown.rstrip()}\n```")
    return "\n\n".join(paragraphs) + "\n", pictures
