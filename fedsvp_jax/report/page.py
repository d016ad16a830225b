"""One self-contained HTML page: styles, scripts and data inside, nothing fetched.

The page's Content-Security-Policy forbids every connection, so that it cannot
load or send anything even where a browser is online.
"""

import functools
import importlib.resources
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fedsvp_jax.core import extras
from fedsvp_jax.report import plotly_spec, read, text_table
from fedsvp_jax.report.plots import HeatMap, Plot, csv_columns, heat_map_columns

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data: blob:; base-uri 'none'; form-action 'none'"
)
Markup: TypeAlias = Any  # markupsafe.Markup, which jinja2 brings
_LONG = 24  # characters of a word or cell that make a column wide


@functools.cache
def _templates() -> Any:
    """The environment of report/templates, which escapes whatever it is handed."""
    with extras.needed("report", "a report page"):
        import jinja2
    return jinja2.Environment(
        loader=jinja2.PackageLoader("fedsvp_jax.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def part(name: str, *values: Any, **options: Any) -> Markup:
    """A macro of templates/parts.html with these values, as markup.

    Raises:
      ImportError: jinja2 is not installed.
    """
    macros = _templates().get_template("parts.html").module
    return getattr(macros, name)(*values, **options)


def write(
    path: Path,
    *,
    title: str,
    subtitle: str,
    sections: Sequence[tuple[str, str, Markup]],
    data: dict[str, Any],
    timestamp: str | None,
    scripts: Sequence[str] = (),
    plotly: bool = True,
) -> Path:
    """Writes the whole page, or nothing; its folder is made where there is none.

    Args:
      path: where to write; it is returned.
      title: plain text.
      subtitle: plain text, one sentence.
      sections: (id, plain-text heading, markup) in order.
      data: what the scripts read; JSON without NaN.
      timestamp: shown at the foot when given.
      scripts: names of the asset scripts that follow common.js, in order of execution.
      plotly: whether the page draws plots.

    Raises:
      ImportError: plotly or jinja2 is not installed.
    """
    text = (
        _templates()
        .get_template("page.html")
        .render(
            title=title,
            subtitle=subtitle,
            policy=POLICY,
            style=_asset("page.css"),
            sections=sections,
            timestamp=timestamp,
            data=script_json(data),
            library=plotly_script() if plotly else "",
            code="\n".join(_asset(name) for name in ("common.js", *scripts)),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    read.write_text(path, text + "\n")
    return path


def plotly_script() -> str:
    """plotly.js, from the Python package that carries it.

    Raises:
      ImportError: plotly is not installed.
    """
    with extras.needed("report", "a report page"):
        from plotly.offline import get_plotlyjs
    return str(get_plotlyjs())


def script_json(data: object) -> str:
    """JSON that no string inside can end: `<`, `>` and `&` are written \\u00XX."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def plot_data(plots: Iterable[Plot | HeatMap]) -> list[dict[str, Any]]:
    """The spec and the CSV columns of each plot, for the page's scripts."""
    specs = []
    for plot in plots:
        if isinstance(plot, HeatMap):
            spec = plotly_spec.heat_map_spec(plot)
            columns = heat_map_columns(plot)
        else:
            spec, columns = plotly_spec.plotly_spec(plot), csv_columns(plot)
        rounded = {name: plotly_spec.rounded(row) for name, row in columns.items()}
        specs.append({"id": plot.id, "spec": spec, "columns": rounded})
    return specs


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    caption: str,
    methods: Sequence[str] | None = None,
) -> Markup:
    """A table of plain values as markup; columns of numbers are aligned right.

    Args:
      head: the columns' names.
      rows: plain values.
      caption: one sentence; what all rows say at length follows it.
      methods: the accounting method of each row, for the page's switch.
    """
    records: list[text_table.Row]
    records = [dict(zip(head, map(str, row), strict=True)) for row in rows]
    if records:
        records, shared = text_table.without_shared(records, _LONG)
        caption, head = f"{caption} {shared}".rstrip(), [*records[0]]
    texts = [[*row.values()] for row in records]
    right = [all(map(_is_number, column)) for column in zip(*texts, strict=True)]
    right = right or [False] * len(head)
    cells = [
        [(text, _kind(text, numeric)) for text, numeric in zip(row, right, strict=True)]
        for row in texts
    ]
    lines = zip(methods or [""] * len(cells), cells, strict=True)
    return part("table", caption, list(zip(head, right, strict=True)), list(lines))


def _is_number(text: str) -> bool:
    return text[:1] in "–-0123456789" and len(text) < _LONG


def _kind(text: str, numeric: bool) -> str | None:
    """The cell's class; only where a word is too long for a column may it be broken."""
    long = max(map(len, text.split()), default=0) > _LONG
    return "num" if numeric else "long" if long else None


def _asset(name: str) -> str:
    folder = importlib.resources.files("fedsvp_jax.report") / "assets"
    return (folder / name).read_text(encoding="utf-8")
