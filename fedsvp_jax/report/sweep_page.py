"""report.html of a sweep: accuracy against ε, a table, curves by round.

epsilon.html and epsilon.json lie beside it.
"""

from pathlib import Path

from fedsvp_jax import mechanisms

from . import epsilon_page, headline, page, provenance, read, tables
from .curves import curves


def write_sweep_report(sweep_dir: str | Path) -> Path:
    """Writes SWEEP_DIR/report.html from config.json and results.jsonl alone.

    Arguments, result and errors are those of `write_run_report`, of a sweep's folder.
    """
    sweep = read.read_sweep(sweep_dir)
    config, results = sweep.config, sweep.results
    epsilon_page.write_epsilon_page(sweep_dir, epsilon_page.document(sweep))
    rows = tables.summarize(results, sweep.cells)
    return page.write(
        Path(sweep_dir) / "report.html",
        "sweep.html",
        plots=curves(sweep),
        data={"tables": {"table": tables.columns(rows)}},
        rows=rows,
        names=dict.fromkeys(mechanisms.about(row.mechanism).label for row in rows),
        config=config,
        note=headline.unprotected(config),
        cells=tables.shown_cells(rows, config),
        finished=sweep.cells,
        origin=provenance.record("sweep", config, results, sweep.sha256),
    )
