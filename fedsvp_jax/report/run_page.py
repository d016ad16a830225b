"""report.html of one run: its result and its ε, what both rest on, how it went."""

from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.report import (
    contributions,
    headline,
    labels,
    page,
    protection,
    provenance,
    quality,
    read,
    tables,
)
from fedsvp_jax.report.curves import curves

MOST_COALITIONS = 64  # whose utilities the page shows for every upload


def write_run_report(run_dir: str | Path) -> Path:
    """Writes RUN_DIR/report.html from the run's files alone, and protection.html.

    Args:
      run_dir: the folder that `experiments.train` wrote.

    Returns:
      The page's path.

    Raises:
      ValueError: a file is missing or damaged; nothing is written.
      ImportError: plotly or jinja2 is not installed.
    """
    run, folder = read.read_run(run_dir), Path(run_dir)
    public = protection.write_protection_page(run, folder)
    plots = {plot.id: plot for plot in curves(run)}
    spent = [plots.pop("epsilon")] if "epsilon" in plots else []
    attributes = contributions.attribute_plots(run)
    cells = upload_columns(run.clients)
    tested = quality.plots(run)
    every = [*plots.values(), *attributes, *spent, *tested]
    sections = [
        ("results", "Result", _result(run, folder, public)),
        ("tests", "On the test rows", quality.section(run, tested)),
        ("privacy", "Privacy", _guarantees(run) + page.part("grid", spent)),
        ("curves", "By round", page.part("grid", list(plots.values()))),
        (
            "attributes",
            "Which attribute matters",
            page.part("grid", attributes) + contributions.attribute_table(run),
        ),
        ("explained", "Noise of each upload, explained", page.part("uploads")),
        ("clients", "By client", contributions.client_table(run)),
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
    left_out = {
        "tests": not run.summary.get("test_scores"),
        "curves": not plots,
        "attributes": not contributions.ranked(run),
        "explained": not cells,
        "clients": not run.clients,
    }
    return page.write(
        folder / "report.html",
        title=f"{_label(run)} on {labels.data_name(run.config)}",
        subtitle=", ".join(
            f"{name} {provenance.value_text(value)}"
            for name, key in _SUBTITLE
            if (value := run.config.get(key)) is not None
        ),
        sections=[section for section in sections if not left_out.get(section[0])],
        data={
            "plots": page.plot_data(every),
            "cells": cells,
            "context": context(run),
        },
        scripts=("explain.js", "cells.js") if cells else (),
    )


_NOT_PUBLIC = (
    "A simulation of all clients on one machine. This page and its folder show what no "
    "noise hides: they are not for publication."
)
_SUBTITLE = (
    ("model", "model"),
    ("rounds", "num_rounds"),
    ("clients", "num_clients"),
    ("cohort", "cohort_size"),
    ("seed", "seed"),
)


def _label(run: read.RunFiles) -> str:
    return mechanisms.about(str(run.config.get("mechanism"))).label


def _result(run: read.RunFiles, folder: Path, public: Path | None) -> page.Markup:
    """The result with its interval, ε and verdict; or that the run has not ended."""
    if run.unfinished is not None:
        first = page.part("alert", run.unfinished)
        return first + page.part("facts", _accuracies(run))
    facts = [*_accuracies(run), *_spent(run.summary)]
    sentences = [*headline.sentences(folder, run.summary), _NOT_PUBLIC]
    if public is not None:
        sentences.append(f"{public.name} beside it may be published.")
    return page.part("facts", facts) + page.part("paragraphs", sentences)


def _accuracies(run: read.RunFiles) -> list[tuple[str, str]]:
    """The final model's accuracy; without a test of it, those of the papers."""
    summary = run.summary
    published, scores = summary.get("published_scores"), summary.get("test_scores")
    if scores:
        name, accuracy = "accuracy", scores["accuracy"]
        interval = tables.wilson(accuracy, sum(scores["counts"].values()))
        if published:
            name, accuracy = "accuracy, to be published", published["accuracy"]
            interval = published["interval"]
        facts = [
            (f"{name}, %", labels.with_interval(accuracy, interval)),
            ("guessing, %", labels.percent(scores["guessing"], digits=1)),
            ("AUC", labels.significant(scores["auc"], 3)),
            ("verdict", headline.verdict(scores)),
        ]
        return [fact for fact in facts if fact[1] != labels.significant(None)]

    def field(name: str) -> float | None:
        return read.number(summary.get(name))

    picked = labels.picked(summary)
    last5 = labels.percent(field("final5_accuracy"), field("final5_std"))
    private = labels.percent(field("final5_private_accuracy"))
    worst = labels.percent(field("final5_worst_tenth_accuracy"))
    facts = [
        ("accuracy, mean of the last 5 evaluations, %", last5),
        ("private classes, mean of the last 5, %", private),
        ("worst tenth of clients, mean of the last 5, %", worst),
        (f"best test accuracy ({picked}), %", labels.percent(field("best_accuracy"))),
    ]
    if run.config.get("has_targets"):
        last5 = labels.significant(field("final5_loss"))
        name = f"test loss ({run.config.get('loss')}), mean of the last 5 evaluations"
        facts = [(name, last5)]
    return [fact for fact in facts if fact[1] != labels.significant(None)]


def _spent(summary: read.Row) -> list[tuple[str, str]]:
    """ε of the run, against whom, and whether it is proved; nothing without a claim."""
    method, epsilon = labels.least_spent(summary)
    status = (summary.get("status") or {}).get(method)
    if epsilon is None or status is None:
        return []
    name = f"ε of the run ({status}; against: {summary['adversary']})"
    delta = labels.delta_text(method, summary)
    return [(name, f"{labels.significant(epsilon)} at {delta}")]


def _guarantees(run: read.RunFiles) -> page.Markup:
    claims = protection.strongest([run.summary])
    if "published_scores" in run.summary:
        claims.append(run.summary["published_scores"])
    if claims:
        return protection.guarantee_table(claims)
    sentence = "This run has no finite privacy guarantee."
    if run.unfinished is not None:
        sentence = "The guarantees are stated when the run has ended."
    return page.part("paragraphs", [sentence])


def _hashes(run: read.RunFiles) -> dict[str, str]:
    params = run.summary.get("params_sha256")
    return run.sha256 | ({"final parameters": params} if params else {})


_DIFFERENT = ("contribution_ratio", "noise_std", "step_noise_std", "client_value")
_CELL_NUMBERS = (
    *_DIFFERENT,
    "released_ratio",
    "risk_tolerance",
    "noise_l2",
    "clipping",
    "epsilon",
    "delta",
    "num_examples",
)


def upload_columns(clients: list[read.Row]) -> dict[str, Any]:
    """clients.jsonl by column; {} where all uploads have the same noise and no value.

    Each field's name stands in the page once.
    """
    columns: dict[str, Any] = {
        name: [read.number(row.get(name)) for row in clients]
        for name in ("round", "client", *_CELL_NUMBERS)
    }
    if all(len({*columns[name]}) < 2 for name in _DIFFERENT):
        return {}
    for name in ("shapley_values", "utilities"):
        rows = [row.get(name) or () for row in clients]
        width = max(map(len, rows), default=0)
        width = 0 if width > MOST_COALITIONS and name == "utilities" else width
        columns[name] = [
            [read.number(row[index]) if index < len(row) else None for row in rows]
            for index in range(width)
        ]
    return page.rounded(columns)


def context(run: read.RunFiles) -> dict[str, Any]:
    """The data that the explanations of all uploads share; null where unknown.

    The private attribute's index and the attributes' names come from summary.json,
    because the setting private_attribute may be a class of the data set.
    """
    config, status = run.config, run.summary.get("status") or {}
    private, names = run.summary.get("private_attribute"), run.summary.get("attributes")
    is_index = isinstance(private, int) and not isinstance(private, bool)
    label, release = _label(run), config.get("contribution_release")
    caveats = [_NOT_CLIPPED] if config.get("clipping") == "paper" else []
    formula = mechanisms.about(str(config.get("mechanism"))).explain(config)
    if formula and release == "raw":
        caveats.append(_LEAKS)
    return {
        "label": label,
        "formula": formula or f"{label} does not use attributes.",
        "caveats": caveats,
        "contribution_release": release,
        "meaning": meaning(run.summary, status.get("basic", "")),
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
