"""report.html of a sweep: accuracy against ε, a table, curves by round.

epsilon.html and epsilon.json lie beside it.
"""

from pathlib import Path

from fedsvp_jax import mechanisms
from fedsvp_jax.report import (
    epsilon_page,
    guarantees,
    headline,
    labels,
    page,
    provenance,
    read,
    spent,
    tables,
)
from fedsvp_jax.report.sweep_plots import sweep_plots


def write_sweep_report(sweep_dir: str | Path, *, timestamp: str | None = None) -> Path:
    """Writes SWEEP_DIR/report.html from config.json and results.jsonl alone.

    Arguments, result and errors are those of `write_run_report`, of a sweep's folder.
    """
    sweep = read.read_sweep(sweep_dir)
    told = epsilon_page.document(sweep)
    epsilon_page.write_epsilon_page(sweep_dir, told, timestamp=timestamp)
    rows = tables.summarize(sweep.results)
    plots = sweep_plots(sweep.results)
    first = [plot for plot in plots if plot.id == "accuracy_epsilon"]
    curves = [plot for plot in plots if plot.id != "accuracy_epsilon"]
    names = dict.fromkeys(mechanisms.about(row.mechanism).label for row in rows)
    seeds = max(row.num_seeds for row in rows)
    rounds = max(row.num_rounds for row in rows)
    sections = [
        (
            "accuracy",
            "Accuracy against ε of the run",
            "".join(map(page.plot_figure, first)),
        ),
        ("table", "Results", _table(rows, sweep)),
        ("rounds", "Curves by round", "".join(map(page.plot_figure, curves))),
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
            "plots": [
                *page.plot_data(plots),
                {"id": "table", "spec": None, "columns": tables.columns(rows)},
            ]
        },
        timestamp=timestamp,
    )


def _table(rows: list[tables.SummaryRow], sweep: read.SweepFiles) -> str:
    shown = tables.shown_cells(rows)
    texts = [list(row.values()) for row in shown]
    picked = (
        "the validation set"
        if any(row.best_by == labels.VALIDATION for row in rows)
        else "the test set itself"
    )
    caption = (
        "Mean ± std over seeds. Best: test accuracy of the best round, which is picked"
        f" on {picked}; last 5: the mean of the last five rounds, which nothing picks."
        " Loss vs FedAvg: 100·(FedAvg − mechanism) / FedAvg. Interval: Student's t over"
        " seeds; p: two-sided t-test of last 5 paired by seed, by Holm for all rows."
        " ε: budget of one upload. Noise L2: mean L2 norm of the noise on one upload."
        " ε spent: after the last round, the largest over seeds. Basic composition"
        " holds at Σδ, the sum of the uploads' δ. Nominal: not proved."
        f" {spent.by_client_note(sweep.config)}"
    )
    by_mechanism = {
        mechanisms.about(str(cell.get("mechanism"))).label: cell for cell in sweep.cells
    }
    note = guarantees.nominal_note(by_mechanism)
    return (
        page.table(list(shown[0]), texts, caption=caption)
        + note
        + page.paragraphs([headline.unprotected(sweep.config)])
        + page.download("table", "the table")
    )
