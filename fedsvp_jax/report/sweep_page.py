"""report.html of a sweep: accuracy against ε, a table, curves by round.

epsilon.html and epsilon.json lie beside it.
"""

from pathlib import Path

from fedsvp_jax import mechanisms
from fedsvp_jax.report import (
    epsilon_page,
    headline,
    labels,
    page,
    provenance,
    read,
    tables,
)
from fedsvp_jax.report.curves import sweep_curves

_CAPTION = (
    "Accuracy: mean over the last five rounds and seeds, with Student's 95 % interval"
    " over seeds. Loss vs FedAvg: 100·(FedAvg − mechanism) / FedAvg. ε spent: after the"
    " last round, the largest over seeds. Nominal: not proved. The download has all"
    " columns: best rounds, p, noise, ε by every accounting."
)


def write_sweep_report(sweep_dir: str | Path) -> Path:
    """Writes SWEEP_DIR/report.html from config.json and results.jsonl alone.

    Arguments, result and errors are those of `write_run_report`, of a sweep's folder.
    """
    sweep = read.read_sweep(sweep_dir)
    content = epsilon_page.document(sweep)
    epsilon_page.write_epsilon_page(sweep_dir, content)
    rows = tables.summarize(sweep.results, sweep.cells)
    plots = sweep_curves(sweep)
    against = [plot for plot in plots if not plot.by_round]
    curves = [plot for plot in plots if plot.by_round]
    names = dict.fromkeys(mechanisms.about(row.mechanism).label for row in rows)
    rounds = max(row.num_rounds for row in rows)
    seeds = max(row.num_seeds for row in rows)
    notes = list(filter(None, [headline.unprotected(sweep.config)]))
    cells = tables.shown_cells(rows)
    sections = [
        ("accuracy", "Against ε of the run", page.part("figures", against)),
        (
            "table",
            "Results",
            page.table_of(cells, caption=_CAPTION)
            + page.part("paragraphs", notes)
            + page.part("download", "table", "the table"),
        ),
        ("rounds", "Curves by round", page.part("grid", curves)),
        (
            "provenance",
            "Settings, versions, command",
            provenance.provenance_html(
                sweep.config,
                sweep.sha256,
                command=provenance.command_line("sweep", sweep.config, sweep.results),
            ),
        ),
    ]
    return page.write(
        Path(sweep_dir) / "report.html",
        title=f"{', '.join(names)} on {labels.data_name(sweep.config)}",
        subtitle=f"{rounds} rounds; number of seeds: {seeds}",
        sections=sections,
        data={
            "plots": page.plot_data(plots),
            "tables": {"table": tables.columns(rows)},
        },
    )
