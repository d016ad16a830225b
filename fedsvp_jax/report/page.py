"""One self-contained HTML page: styles, scripts and data inside, nothing fetched.

The page's Content-Security-Policy forbids every connection, so that it cannot
load or send anything even where a browser is online.
"""

import html
import importlib.resources
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax import extras
from fedsvp_jax.report import plotly_spec, read, text_table
from fedsvp_jax.report.plots import HeatMap, Plot, csv_columns, heat_map_columns

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_LONG = 24  # characters of a word or cell that make a column wide
_NUM = ' class="num"'


def escape(value: object) -> str:
    """Any value as text for HTML, inside an element or an attribute."""
    return html.escape(str(value), quote=True)


def paragraphs(sentences: Iterable[str]) -> str:
    """Each sentence that is not empty, in a paragraph of its own."""
    return "".join(f"<p>{escape(text)}</p>" for text in sentences if text)


def write(
    path: Path,
    *,
    title: str,
    subtitle: str,
    sections: Sequence[tuple[str, str, str]],
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
      sections: (id, plain-text heading, HTML body) in order.
      data: what the scripts read; JSON without NaN.
      timestamp: shown at the foot when given.
      scripts: names of the asset scripts that follow common.js, in order of execution.
      plotly: whether the page draws plots.

    Raises:
      ImportError: plotly is not installed.
    """
    library = f"<script>{plotly_script()}</script>\n" if plotly else ""
    links = "".join(
        f'<a href="#{escape(key)}">{escape(head)}</a>' for key, head, _ in sections
    )
    bodies = "".join(
        f'<section id="{escape(key)}" aria-labelledby="{escape(key)}-head">'
        f'<h2 id="{escape(key)}-head">{escape(head)}</h2>{body}</section>\n'
        for key, head, body in sections
    )
    code = "\n".join(_asset(name) for name in ("common.js", *scripts))
    made = f" Made {escape(timestamp)}." if timestamp else ""
    text = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_asset('page.css')}</style>\n"
        '</head><body>\n<a class="skip" href="#main">Skip to the results</a>\n'
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p>"
        f'<nav aria-label="Sections">{links}</nav></header>\n'
        f'<main id="main">\n{bodies}</main>\n'
        "<footer>Numbers on this page are rounded to six significant digits; the JSON"
        f" files beside it hold full precision.{made}</footer>\n"
        f'<script type="application/json" id="data">{script_json(data)}</script>\n'
        f"{library}<script>{code}</script>\n</body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    read.write_text(path, text)
    return path


def plotly_script() -> str:
    """plotly.js, from the Python package that carries it.

    Raises:
      ImportError: plotly is not installed.
    """
    plotly = extras.needed("plotly.offline", "report", "a report page")
    return str(plotly.get_plotlyjs())


def script_json(data: object) -> str:
    """JSON that no string inside can end: `<`, `>` and `&` are written \\u00XX."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def plot_data(plots: Iterable[Plot | HeatMap]) -> list[dict[str, Any]]:
    """What page.js needs to draw each plot and to write its CSV."""
    made = []
    for plot in plots:
        if isinstance(plot, HeatMap):
            spec = plotly_spec.heat_map_spec(plot)
            columns = heat_map_columns(plot)
        else:
            spec, columns = plotly_spec.plotly_spec(plot), csv_columns(plot)
        rounded = {name: plotly_spec.rounded(row) for name, row in columns.items()}
        made.append({"id": plot.id, "spec": spec, "columns": rounded})
    return made


def plot_figure(plot: Plot | HeatMap) -> str:
    """A plot on the page: title, note, drawing and download button."""
    wide = " wide" if len(plot.panels) > 1 else ""
    return (
        f'<figure class="card{wide}"><figcaption><h3>{escape(plot.title)}</h3>'
        f"<p>{escape(plot.note)}</p></figcaption>"
        f'<div class="plot" id="plot-{escape(plot.id)}" role="img"'
        f' aria-label="{escape(plot.title)}"></div>'
        f"{download(plot.id, plot.title)}</figure>"
    )


def plot_grid(plots: Iterable[Plot | HeatMap]) -> str:
    """Plots beside one another, as many as the page is wide."""
    return f'<div class="grid">{"".join(map(plot_figure, plots))}</div>'


def download(key: str, of: str) -> str:
    """The button that saves the columns named `key` of the page's data as CSV."""
    return (
        f'<button type="button" data-csv="{escape(key)}">Download CSV'
        f'<span class="sr"> of {escape(of)}</span></button>'
    )


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    caption: str,
    methods: Sequence[str] | None = None,
) -> str:
    """A table of plain values; columns of numbers are aligned right.

    Args:
      head: the columns' names.
      rows: plain values, escaped here.
      caption: one sentence; what all rows say at length follows it.
      methods: the accounting method of each row, for the page's switch.
    """
    told: list[text_table.Row]
    told = [dict(zip(head, map(str, row), strict=True)) for row in rows]
    if told:
        told, shared = text_table.without_shared(told, _LONG)
        caption, head = f"{caption} {shared}".rstrip(), [*told[0]]
    texts = [[*row.values()] for row in told]
    right = [all(map(_is_number, column)) for column in zip(*texts, strict=True)]
    right = right or [False] * len(head)
    lines = []
    for index, row in enumerate(texts):
        mark = f' data-method="{escape(methods[index])}"' if methods else ""
        lines.append(f"<tr{mark}>{''.join(map(_cell, row, right))}</tr>")
    heads = "".join(
        f'<th scope="col"{_NUM if numeric else ""}>{escape(name)}</th>'
        for name, numeric in zip(head, right, strict=True)
    )
    return (
        '<div class="scroll" tabindex="0" role="region"'
        f' aria-label="{escape(caption)}"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Headline numbers: (name, value)."""
    return (
        '<dl class="facts">'
        + "".join(
            f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs
        )
        + "</dl>"
    )


def code_block(text: str) -> str:
    """A command that can be copied."""
    return (
        f'<div class="code"><pre tabindex="0">{escape(text)}</pre>'
        '<button type="button" data-copy>Copy</button></div>'
    )


def _is_number(text: str) -> bool:
    return text[:1] in "–-0123456789" and len(text) < _LONG


def _cell(text: str, numeric: bool) -> str:
    """A cell; only where a word is too long for a column may the word be broken."""
    long = ' class="long"' if max(map(len, text.split()), default=0) > _LONG else ""
    return f"<td{_NUM if numeric else long}>{escape(text)}</td>"


def _asset(name: str) -> str:
    folder = importlib.resources.files("fedsvp_jax.report") / "assets"
    return (folder / name).read_text(encoding="utf-8")
