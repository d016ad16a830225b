"""A headless Chromium that opens a file: FEDSVP_BROWSER names it.

It is told to print the document as it is in the end, which needs no driver and no
network.
"""

import html
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSER = os.environ.get("FEDSVP_BROWSER", "")
needs_browser = pytest.mark.skipif(
    not BROWSER, reason="FEDSVP_BROWSER does not name a Chromium"
)

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--window-size=1300,900",
)
VIRTUAL_TIME = "--virtual-time-budget=8000"  # timers fire at once; clocks stand still
WATCH = """<script>window.ERRORS = [];
addEventListener("error", (event) => ERRORS.push(event.message));
const complain = console.error;
console.error = (...words) => { ERRORS.push(words.join(" ")); complain(...words); };
addEventListener("securitypolicyviolation", (e) => ERRORS.push(e.violatedDirective));
</script>"""


def dumped(page: Path, tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The document as the browser has it in the end."""
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    return subprocess.run(
        [BROWSER, *FLAGS, *more, profile, "--dump-dom", f"file://{page}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def seen(done: subprocess.CompletedProcess[str]) -> Any:
    """What the page's script left in its element `seen`."""
    found = re.search(r'<output id="seen">(.*?)</output>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))
