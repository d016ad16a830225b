"""report.html of one run: curves, the noise of each upload, guarantees, settings."""

import statistics
from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.report import (
    attribute_values,
    client_values,
    guarantees,
    headline,
    labels,
    page,
    provenance,
    read,
    spent,
)
from fedsvp_jax.report.adversaries import adversaries_plot
from fedsvp_jax.report.plotly_spec import rounded
from fedsvp_jax.report.plots import drawable
from fedsvp_jax.report.run_plots import run_plots

MOST_COALITIONS = 64  # whose utilities the page shows for every upload


def write_run_report(run_dir: str | Path, *, timestamp: str | None = None) -> Path:
    """Writes RUN_DIR/report.html from the run's files alone.

    Args:
      run_dir: the folder that `experiments.train` wrote.
      timestamp: shown at the page's foot; without it the page is a function of
        the files and the package versions.

    Returns:
      The page's path.

    Raises:
      ValueError: a file is missing or damaged; nothing is written.
      ImportError: plotly is not installed.
    """
    run = read.read_run(run_dir)
    plots = [*run_plots(run), *drawable([adversaries_plot(run)])]
    spent = [plot for plot in plots if plot.id in ("epsilon", "adversaries")]
    curves = [plot for plot in plots if plot not in spent]
    values = attribute_values.attribute_plots(run)
    attributes = [
        (
            "attributes",
            "Which attribute matters",
            page.part("grid", values) + attribute_values.ranking_table(run),
        )
    ]
    worth, worth_table = client_values.section(run)
    contributors = [
        ("contributors", "Who contributes", page.part("grid", worth) + worth_table)
    ]
    title, subtitle = _title(run)
    sections = [
        (
            "results",
            "Results",
            _headline(run, Path(run_dir)) + _facts(run) + page.part("grid", curves),
        ),
        *(attributes if values else ()),
        *(contributors if worth else ()),
        ("explained", "Noise of each upload, explained", _explorer(run)),
        (
            "privacy",
            "Privacy spent",
            _switch(run)
            + page.part("grid", spent)
            + (
                guarantees.table(run.summary)
                if run.unfinished is None
                else page.part("paragraphs", [_NOT_STATED])
            ),
        ),
        ("ledger", "Privacy spent by client", _by_client(run)),
        (
            "provenance",
            "Settings, versions, command",
            provenance.provenance_html(
                run.config,
                _hashes(run),
                command=provenance.command_line("train", run.config, run.metrics),
            ),
        ),
    ]
    return page.write(
        Path(run_dir) / "report.html",
        title=title,
        subtitle=subtitle,
        sections=sections,
        data={
            "plots": page.plot_data([*plots, *values, *worth]),
            "cells": cell_columns(run.clients),
            "context": context(run),
        },
        scripts=("explain.js", "cells.js"),
        timestamp=timestamp,
    )


_NOT_STATED = "The guarantees are stated when the run has ended."
_NOT_PUBLIC = (
    "A simulation of all clients on one machine. This page and its folder show what no "
    "noise hides: they are not for publication."
)


def _headline(run: read.RunFiles, folder: Path) -> page.Markup:
    """The sentences in front, or the alert that the run has not ended."""
    if run.unfinished is not None:
        return page.part("alert", run.unfinished)
    sentences = [*headline.sentences(folder, run.summary), _NOT_PUBLIC]
    return page.part("paragraphs", sentences)


_CELL_NUMBERS = (
    "contribution_ratio",
    "released_ratio",
    "risk_tolerance",
    "noise_std",
    "step_noise_std",
    "noise_l2",
    "sensitivity",
    "epsilon",
    "delta",
    "num_examples",
)


def cell_columns(clients: list[read.Row]) -> dict[str, Any]:
    """clients.jsonl by column, so that each field's name stands in the page once."""
    columns: dict[str, Any] = {
        name: [row[name] for row in clients] for name in ("round", "client")
    }
    for name in _CELL_NUMBERS:
        columns[name] = rounded([read.number(row.get(name)) for row in clients])
    for name in ("shapley_values", "utilities"):
        width = max((len(row.get(name) or ()) for row in clients), default=0)
        width = 0 if width > MOST_COALITIONS and name == "utilities" else width
        columns[name] = [
            rounded([_item(row.get(name), index) for row in clients])
            for index in range(width)
        ]
    return columns


def context(run: read.RunFiles) -> dict[str, Any]:
    """The data that the explanations of all uploads share; null where unknown.

    The private attribute's index and the attributes' names come from summary.json,
    because the setting private_attribute may be a class of the data set.
    """
    config = run.config
    private = run.summary.get("private_attribute")
    names = run.summary.get("attributes")
    is_index = isinstance(private, int) and not isinstance(private, bool)
    mechanism = str(config.get("mechanism"))
    release = config.get("contribution_release")
    label = mechanisms.about(mechanism).label
    caveats = [_NOT_CLIPPED] if config.get("sensitivity") == "paper" else []
    formula = mechanisms.about(mechanism).explain(config)
    if formula and release == "raw":
        caveats.append(_LEAKS)
    return {
        "label": label,
        "formula": formula or f"{label} does not use attributes.",
        "caveats": caveats,
        "contribution_release": release,
        "meaning": meaning(run.summary, spent.upload_status(run.clients, run.summary)),
        "clients": run.summary.get("client_names") or [],
        "attributes": list(map(str, names)) if isinstance(names, list) else [],
        "private_attribute": private if is_index else None,
    }


_NOT_CLIPPED = (
    "The claim is nominal: it assumes a sensitivity of 2C/|D|, which does not follow"
    " from clipping the mean gradient of each batch."
)
_LEAKS = (
    "Because σ depends on R, and R is computed from private data without protection,"
    " σ itself leaks R."
)


def _title(run: read.RunFiles) -> tuple[str, str]:
    config = run.config
    mechanism = mechanisms.about(str(config.get("mechanism"))).label
    parts = [
        f"{name} {value}" for name, key in _SUBTITLE if (value := _get(config, key))
    ]
    return f"{mechanism} on {labels.data_name(config)}", ", ".join(
        [*parts, *_claim(run)]
    )


def _claim(run: read.RunFiles) -> list[str]:
    """The claim of the uploads, which may differ from the settings."""
    epsilon = spent.upload_claim(run.clients, "epsilon")
    if not epsilon:
        return []
    claim = f"ε per upload {epsilon} at δ′ = {spent.upload_claim(run.clients, 'delta')}"
    status = spent.upload_status(run.clients, run.summary)
    return [spent.marked(claim, meaning(run.summary, status))]


_SUBTITLE = (
    ("model", "model"),
    ("rounds", "num_rounds"),
    ("clients", "num_clients"),
    ("cohort", "cohort_size"),
    ("seed", "seed"),
)


def _get(config: read.Row, key: str) -> str:
    value = config.get(key)
    return "" if value is None else provenance.value_text(value)


_RATIO_COUNTS = (
    ("num_clipped_ratios", "uploads whose R fell outside [0, 1]"),
    ("num_degenerate_ratios", "uploads whose Shapley sum was ~0 (R set to 1)"),
)


def _facts(run: read.RunFiles) -> page.Markup:
    summary = run.summary

    def field(name: str) -> float | None:
        return read.number(summary.get(name))

    picked = labels.picked(summary)
    last5 = labels.percent(field("final5_accuracy"), field("final5_std"))
    worst = labels.percent(field("final5_worst_tenth_accuracy"))
    accuracies = [
        (f"best test accuracy ({picked}), %", labels.percent(field("best_accuracy"))),
        ("mean of the last 5 evaluations, %", last5),
        (
            "private classes, mean of the last 5, %",
            labels.percent(field("final5_private_accuracy")),
        ),
        ("worst tenth of clients, mean of the last 5, %", worst),
    ]
    losses = [
        (f"lowest test loss ({picked})", labels.significant(field("best_loss"))),
        (
            "test loss, mean of the last 5 evaluations",
            labels.significant(field("final5_loss")),
        ),
    ]
    pairs = [
        *(losses if run.config.get("has_targets") else accuracies),
        ("rounds", str(len(run.metrics))),
        ("parameters", f"{int(field('num_parameters') or 0):,}"),
    ]
    status = summary.get("status") or {}
    for method, value in (summary.get("epsilon_spent") or {}).items():
        words = meaning(summary, status[method]) if method in status else ""
        name = f"ε spent, {labels.method_label(method)}"
        text = labels.significant(read.number(value))
        delta = spent.delta_text(method, summary) if method in status else ""
        text += f" at {delta}" if delta else ""
        pairs.append((spent.marked(name, spent.without_neighbours(words)), text))
    uses_ratio = any(row.get("contribution_ratio_mean") for row in run.metrics)
    for counted, name in _RATIO_COUNTS if uses_ratio else ():
        counts = [n for row in run.metrics if (n := row.get(counted)) is not None]
        if counts:
            pairs.append((name, f"{sum(counts):g} of {len(run.clients)}"))
    facts = [pair for pair in pairs if pair[1] != labels.significant(None)]
    return page.part("facts", facts)


def _explorer(run: read.RunFiles) -> page.Markup:
    if not run.clients:
        empty = "clients.jsonl is empty: there is no upload to explain."
        return page.part("paragraphs", [empty])
    return page.part("uploads")


def _switch(run: read.RunFiles) -> page.Markup:
    at_end = [row.get("method") for row in guarantees.rows_of(run.summary)]
    spent_methods = [
        *read.spent_methods(run.metrics),
        *run.summary.get("epsilon_spent", {}),
    ]
    methods = dict.fromkeys([*spent_methods, *(str(name) for name in at_end if name)])
    names = [("", "all"), *((name, labels.method_label(name)) for name in methods)]
    return page.part("methods", names)


def _by_client(run: read.RunFiles) -> page.Markup:
    by_client: dict[int, list[read.Row]] = {}
    for row in run.clients:
        by_client.setdefault(row["client"], []).append(row)
    in_steps = any(row.get("step_noise_std") for row in run.clients)
    noise = "step_noise_std" if in_steps else "noise_std"
    spent = run.summary.get("by_client") or {}
    rows = [
        (
            read.client_name(run.summary, client),
            len(uploads),
            labels.significant(_mean(uploads, "contribution_ratio")),
            labels.significant(_mean(uploads, noise)),
            labels.significant(_item(spent.get("epsilon"), client)),
            labels.significant(_item(spent.get("delta"), client)),
        )
        for client, uploads in sorted(by_client.items())
    ]
    sigma = "mean σ per local step" if in_steps else "mean σ"
    head = ("client", "uploads", "mean R", sigma, "ε", "δ")
    caption = (
        "Every client that uploaded. ε and δ are what it has spent at the end, by basic"
        " composition; a dash means that there is no finite guarantee, or no end yet."
    )
    status = (run.summary.get("status") or {}).get("basic")
    if status:
        caption += f" ({meaning(run.summary, status)})"
    table = page.table(head, rows, caption=caption)
    return page.part("hidden_at_first", f"{len(rows)} clients", table)


def _hashes(run: read.RunFiles) -> dict[str, str]:
    params = run.summary.get("params_sha256")
    return run.sha256 | ({"final parameters": params} if params else {})


def _mean(rows: list[read.Row], name: str) -> float | None:
    values = [v for row in rows if (v := read.number(row.get(name))) is not None]
    return statistics.fmean(values) if values else None


def _item(values: list[Any] | None, index: int) -> float | None:
    return read.number(values[index]) if values and index < len(values) else None
