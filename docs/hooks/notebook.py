"""MkDocs hook: a notebook under docs/ is a page, its cells and outputs as Markdown."""

import base64
import json
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Puts NAME.md, and the pictures it shows, in the place of NAME.ipynb."""
    for source in [f for f in files if f.src_uri.endswith(".ipynb")]:
        stem = source.src_uri.removesuffix(".ipynb")
        text, pictures = markdown(json.loads(source.content_string), stem)
        made = {f"{stem}.md": text, **pictures}
        for uri, content in made.items():
            files.append(File.generated(config, uri, content=content))
    return files


def markdown(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """The notebook's page and its pictures by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}_{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![what the cell draws]({name.split('/')[-1]})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                shown = "".join(output.get("text") or data.get("text/plain", ""))
                parts.append(f"```text\n{shown.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures
