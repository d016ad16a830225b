"""compare.html: several runs and sweeps on the same axes, and how they differ."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import page, provenance, read, tables, text_table
from .curves import compare_curves


def write_compare_report(folders: Sequence[str | Path], output_dir: str | Path) -> Path:
    """Writes OUTPUT_DIR/compare.html from the folders' files alone.

    Args:
      folders: at least two folders, each of a run or of a sweep.
      output_dir: where the page is written; created if it does not exist.

    Raises:
      ValueError: as `read.read_all`.
    """
    files = read.read_all(folders)
    rows = comparison_table(files)
    return page.write(
        Path(output_dir) / "compare.html",
        "compare.html",
        plots=compare_curves(files),
        data={
            "tables": {"table": {name: [row[name] for row in rows] for name in rows[0]}}
        },
        files=files,
        rows=rows,
        differences=_differences(files),
    )


def comparison_table(files: Mapping[str, read.Files]) -> text_table.Table:
    """The rows of `tables.shown_cells`, each with its folder: all in one table."""
    summaries = [
        (name, row)
        for name, result in files.items()
        for row in tables.summarize(result.results, result.cells)
    ]
    configs = [result.config for result in files.values()]
    cells = tables.shown_cells([row for _, row in summaries], *configs)
    return [
        {"folder": name} | row for (name, _), row in zip(summaries, cells, strict=True)
    ]


def _differences(files: Mapping[str, read.Files]) -> text_table.Table:
    """The settings whose values differ, by folder."""
    settings = {
        name: provenance.settings_text(result.config) for name, result in files.items()
    }
    rows = []
    for setting in sorted({*itertools.chain(*settings.values())}):
        values = {name: texts.get(setting, "–") for name, texts in settings.items()}
        if len({*values.values()}) > 1:
            rows.append({"setting": setting} | values)
    return rows
