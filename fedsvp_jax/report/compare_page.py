"""compare.html: several runs and sweeps on the same axes, and how they differ."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedsvp_jax.report import headline, page, provenance, read, tables
from fedsvp_jax.report.curves import compare_curves

_CAPTION = (
    "One row per run; for a sweep one row per mechanism and ε. Accuracy: mean over the"
    " last five rounds and seeds, with Student's 95 % interval over seeds. ε spent:"
    " after the last round; for a sweep, the largest over seeds. Nominal: not proved."
)


def write_compare_report(
    folders: Sequence[str | Path],
    output_dir: str | Path,
) -> Path:
    """Writes OUTPUT_DIR/compare.html from the folders' files alone.

    Args:
      folders: at least two folders, each of a run or of a sweep.
      output_dir: where the page is written; created if it does not exist.

    Raises:
      ValueError: fewer than two folders.
    """
    files = read.read_all(folders)
    plots = compare_curves(files)
    rows = comparison_table(files)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    notes = [
        f"{name}: {sentence}"
        for name, result in files.items()
        if (sentence := headline.unprotected(result.config))
    ]
    results = page.table_of(rows, caption=_CAPTION)
    results += page.part("paragraphs", notes)
    return page.write(
        Path(output_dir) / "compare.html",
        title=", ".join(files),
        subtitle=f"{len(files)} folders compared",
        sections=[
            (
                "results",
                "Results",
                results + page.part("download", "table", "the table"),
            ),
            ("curves", "Curves", page.part("grid", plots)),
            ("settings", "Settings that differ", _differences(files)),
        ],
        data={"plots": page.plot_data(plots), "tables": {"table": columns}},
    )


def comparison_table(files: Mapping[str, read.Files]) -> list[dict[str, str]]:
    """The rows of `tables.shown_cells`, each with its folder: all in one table."""
    summaries = [
        (name, row)
        for name, result in files.items()
        for row in tables.summarize(result.results, result.cells)
    ]
    cells = tables.shown_cells([row for _, row in summaries])
    return [
        {"folder": name} | row for (name, _), row in zip(summaries, cells, strict=True)
    ]


def _differences(files: Mapping[str, read.Files]) -> page.Markup:
    settings = {
        name: provenance.read_settings(result.config) for name, result in files.items()
    }
    rows = []
    for name in sorted({key for config in settings.values() for key in config}):
        values = [
            provenance.value_text(config[name]) if name in config else "–"
            for config in settings.values()
        ]
        if len(set(values)) > 1:
            rows.append([name, *values])
    if not rows:
        return page.part("paragraphs", ["All settings are the same."])
    return page.table(
        ["setting", *files],
        rows,
        caption="Settings whose values differ; a dash: not recorded, or not read by the"
        " mechanism.",
    )
