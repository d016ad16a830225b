"""MkDocs hook: the search works on pages that are opened as files.

The theme searches in a worker, and a browser starts no worker from a file. A script
beside the pages therefore holds the worker's source as text and starts it from there.
The theme's plugin `offline` writes the search index as a script too. It would fetch a
script for this purpose from elsewhere if `extra.polyfills` did not name this one.
"""

import json
import pathlib

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

SCRIPT = "assets/iframe-worker.js"
_SHIM = """"use strict";
// Made by docs/hooks/file_search.py.
if (location.protocol === "file:") {
  const source = %s;
  const Native = window.Worker;
  window.Worker = class extends Native {
    constructor() {
      super(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    }
  };
}
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the script; `mkdocs.yml` names it in `extra.polyfills`."""
    (worker,) = (
        path
        for folder in config.theme.dirs
        for path in pathlib.Path(folder).glob("assets/javascripts/workers/search*.js")
    )
    source = json.dumps(worker.read_text(encoding="utf-8"))
    files.append(File.generated(config, SCRIPT, content=_SHIM % source))
    return files
