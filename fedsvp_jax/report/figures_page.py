"""report.html of the other experiments: attacks, influence.

They write pictures (*.png, *.svg) and results.json or summary.json, whose content
differs from one to the next: here a list of records becomes a table, a list of numbers
one line of text.
"""

import base64
import html
import re
from pathlib import Path
from typing import Any

from fedsvp_jax.report import labels, page, provenance, read

RESULTS = ("summary.json", "results.json")
_PICTURES = {".png": "png", ".svg": "svg+xml"}  # suffix -> type in data URIs
MAX_ROWS = 500  # that a table on the page shows; its CSV has all rows
Columns = dict[str, list[Any]]


def write_figures_report(folder: str | Path, *, timestamp: str | None = None) -> Path:
    """Writes FOLDER/report.html from config.json, the results and the pictures.

    Arguments, result and errors are those of `write_run_report`, of the output folder
    of an attack or of influence.
    """
    place = Path(folder)
    config, sha256 = read.read_object(place / "config.json")
    hashes = {"config.json": sha256}
    facts: list[tuple[str, str]] = []
    tables: dict[str, Columns] = {}
    for name in (name for name in RESULTS if (place / name).is_file()):
        content, hashes[name] = read.read_object(place / name)
        _collect(content, "", facts, tables)
    pictures = sorted(path for path in place.iterdir() if path.suffix in _PICTURES)
    if not tables and not facts and not pictures:
        raise ValueError(
            f"{place} holds no metrics.jsonl, results.jsonl, {' or '.join(RESULTS)}: "
            "there is nothing to report on"
        )
    sections = [
        ("figures", "Figures", "".join(map(_picture, pictures))),
        ("numbers", "Numbers", page.facts(facts)),
        (
            "tables",
            "Tables",
            "".join(_table(name, columns) for name, columns in tables.items()),
        ),
        (
            "provenance",
            "Settings and versions",
            provenance.provenance_html(config, hashes, command=None),
        ),
    ]
    experiment = config.get("attack") or place.resolve().name
    return page.write(
        place / "report.html",
        title=f"{experiment} on {config.get('dataset', 'digits')}",
        subtitle=f"{_count(len(pictures), 'figure')}, {_count(len(tables), 'table')}",
        sections=[section for section in sections if section[2]],
        data={
            "plots": [
                {"id": _id(name), "spec": None, "columns": columns}
                for name, columns in tables.items()
            ]
        },
        timestamp=timestamp,
    )


def _collect(
    content: dict[str, Any],
    prefix: str,
    facts: list[tuple[str, str]],
    tables: dict[str, Columns],
) -> None:
    """Adds a file's lists of records to the tables, its other values to the facts."""
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            _collect(value, f"{name}.", facts, tables)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            keys = dict.fromkeys(k for row in value for k in row)
            tables[name] = {k: [_plain(row.get(k)) for row in value] for k in keys}
        else:
            facts.append((name, _text(_plain(value))))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _plain(value: Any) -> Any:
    """A value for a CSV cell: numbers, text and null stay, other values become JSON."""
    kept = value is None or isinstance(value, int | float | str)
    return value if kept else provenance.shown(value)


def _text(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number or value is None:
        return labels.significant(read.number(value))
    return str(value) if len(str(value)) <= 80 else f"{str(value)[:79]}…"


def _table(name: str, columns: Columns) -> str:
    rows = list(zip(*columns.values(), strict=True))
    shown = [[_text(value) for value in row] for row in rows[:MAX_ROWS]]
    caption = name
    if len(rows) > MAX_ROWS:
        caption += f": the first {MAX_ROWS} of {len(rows)} rows; the CSV has all"
    table = page.table(list(columns), shown, caption=caption)
    return table + page.download(_id(name), name)


def _picture(path: Path) -> str:
    name = html.escape(path.stem, quote=True)
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    kind = _PICTURES[path.suffix]
    return (
        f'<figure class="card wide"><figcaption><h3>{name}</h3></figcaption>'
        f'<img alt="{name}" src="data:image/{kind};base64,{data}"></figure>'
    )


def _id(name: str) -> str:
    return re.sub(r"\W+", "_", name)
