"""The site opened as files: it searches, fits a narrow window, and logs no error."""

import http.server
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from browser import WATCH, dumped, needs_browser, seen

pytestmark = needs_browser
ROOT = pathlib.Path(__file__).parents[2]
WIDTH = 400  # pixels
REPORT = """<script>addEventListener("load", () => setTimeout(() => parent.postMessage({
  page: location.pathname.split("/").at(-1),
  width: document.documentElement.scrollWidth,
  cut: [...document.querySelectorAll("pre > code")]
    .filter((code) => code.scrollWidth > code.clientWidth + 1).length,
  errors: ERRORS }, "*"), 500));</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    place = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(place)]
    subprocess.run(line, cwd=ROOT, check=True)
    return place


def test_every_page_fits_400_pixels_cuts_no_command_and_logs_no_error(
    site: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    pages = [page for page in sorted(site.glob("*.html")) if page.name != "404.html"]
    frames = ""
    for page in pages:
        copy = page.with_name(f"played_{page.name}")
        text = page.read_text().replace("<head>", "<head>" + WATCH, 1)
        copy.write_text(text.replace("</body>", REPORT + "</body>"))
        frames += f'<iframe src="{copy.name}" width={WIDTH} height=800></iframe>'
    wrapper = site / "wrapper.html"
    wrapper.write_text(f"""<body><output id="seen"></output><script>
      const seen = [];
      addEventListener("message", (event) => {{
        if (event.data.page) seen.push(event.data);
        document.getElementById("seen").textContent = JSON.stringify(seen); }});
      </script>{frames}</body>""")
    done = dumped(wrapper, tmp_path, "--virtual-time-budget=60000")
    told = seen(done)
    assert len(told) == len(pages) > 15
    assert not [one for one in told if one["width"] > WIDTH or one["cut"]]
    assert not [one for one in told if one["errors"]]


class _Slow(http.server.BaseHTTPRequestHandler):
    """Answers after a while, and so delays the end of loading in real time."""

    def do_GET(self) -> None:
        threading.Event().wait(12)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def slow_picture() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_page_opened_as_a_file_searches(
    site: pathlib.Path, tmp_path: pathlib.Path, slow_picture: str
) -> None:
    """In real time, for the index is made in a worker."""
    played = site / "searched.html"
    text = (site / "methods.html").read_text().replace("<head>", "<head>" + WATCH, 1)
    script = f"""<img src="{slow_picture}"><script>
      const field = document.querySelector("[data-md-component=search-query]");
      addEventListener("DOMContentLoaded", () => {{ field.focus();
        field.value = "Poisson";
        field.dispatchEvent(new Event("keyup", {{ bubbles: true }})); }});
      </script>"""
    played.write_text(text.replace("</body>", script + "</body>"))
    done = dumped(played, tmp_path)
    (shown,) = re.findall(r'md-search-result__meta">\s*([^<]*)<', done.stdout)
    assert re.match(r"[1-9]\d* matching documents", shown.strip()), shown
    assert "CONSOLE" not in done.stderr
