"""One self-contained HTML page: styles, scripts and data inside, nothing fetched.

The page's Content-Security-Policy forbids every connection, so that it cannot
load or send anything even where a browser is online.
"""

import dataclasses
import functools
import importlib.resources
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from fedsvp_jax.core import extras
from fedsvp_jax.core.files import replace_file
from fedsvp_jax.report import text_table
from fedsvp_jax.report.plots import Plot

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data: blob:; base-uri 'none'; form-action 'none'"
)
Markup: TypeAlias = Any  # markupsafe.Markup, which jinja2 brings
_JSON = {"separators": (",", ":"), "allow_nan": False}
_LONG = 24  # characters of a word or cell that make a column wide


@functools.cache
def _templates() -> Any:
    """The environment of report/templates, which escapes whatever it is handed."""
    with extras.needed("report", "a report page"):
        import jinja2
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fedsvp_jax.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = _JSON
    return environment


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
    data: Mapping[str, Any] = MappingProxyType({}),
    scripts: Sequence[str] = (),
) -> Path:
    """Writes the whole page, or nothing; its folder is made where there is none.

    Args:
      path: where to write; it is returned.
      title: plain text.
      subtitle: plain text, one sentence.
      sections: (id, plain-text heading, markup) in order.
      data: what the scripts read, JSON without NaN: `plots`, `tables` by the id under
        which they are downloaded, and what the page's own scripts ask for.
      scripts: names of the asset scripts that follow common.js, in order of execution.

    Raises:
      ImportError: jinja2 is not installed, or plotly where there is a plot.
    """
    draws = data.get("plots") or data.get("cells")
    code = ("common.js", *scripts) if data else ()
    text = (
        _templates()
        .get_template("page.html")
        .render(
            title=title,
            subtitle=subtitle,
            policy=POLICY,
            style=_asset("page.css"),
            sections=sections,
            data=dict(data),
            library=plotly_script() if draws else "",
            code="\n".join(_asset(name) for name in code),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode(), b"\n")
    return path


def plotly_script() -> str:
    """plotly.js, from the Python package that carries it.

    Raises:
      ImportError: plotly is not installed.
    """
    with extras.needed("report", "a report page"):
        from plotly.offline import get_plotlyjs
    return str(get_plotlyjs())


def plot_data(plots: Iterable[Plot]) -> list[dict[str, Any]]:
    """The plots as the page's script draws them."""
    return [rounded(dataclasses.asdict(plot)) for plot in plots]


def rounded(value: Any) -> Any:
    """Floats rounded to six significant digits, which keeps pages small."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str
) -> Markup:
    """A table of plain values as markup, as `table_of` makes it.

    Args:
      head: the columns' names.
      rows: plain values.
      caption: one sentence; what all rows say at length follows it.
    """
    records = [dict(zip(head, map(str, row), strict=True)) for row in rows]
    return table_of(records, caption=caption)


def table_of(records: Sequence[text_table.Row], *, caption: str) -> Markup:
    """A table whose rows hold text by column; columns of numbers are aligned right."""
    head: list[str] = []
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
    return part("table", caption, list(zip(head, right, strict=True)), cells)


def _is_number(text: str) -> bool:
    return text[:1] in "–-0123456789" and len(text) < _LONG


def _kind(text: str, numeric: bool) -> str | None:
    """The cell's class; only where a word is too long for a column may it be broken."""
    long = max(map(len, text.split()), default=0) > _LONG
    return "num" if numeric else "long" if long else None


def _asset(name: str) -> str:
    folder = importlib.resources.files("fedsvp_jax.report") / "assets"
    return (folder / name).read_text(encoding="utf-8")
