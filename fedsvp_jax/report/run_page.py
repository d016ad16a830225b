"""report.html of one run: its result and its ε, what both rest on, how it went."""

import itertools
from pathlib import Path

from fedsvp_jax import mechanisms
from fedsvp_jax.accounting.claims import meaning
from fedsvp_jax.core.files import Record, toml_beside

from . import (
    contributions,
    headline,
    labels,
    page,
    protection,
    provenance,
    quality,
    read,
)
from .curves import curves

_MOST_COALITIONS = 64  # whose utilities the page shows for every upload


def write_run_report(run_dir: str | Path) -> Path:
    """Writes RUN_DIR/report.html from the run's files alone, and protection.html.

    Args:
      run_dir: the folder that `experiments.train` wrote.

    Returns:
      The page's path.

    Raises:
      ValueError: a file is missing or damaged; nothing is written.
      ImportError: plotly is not installed.
    """
    run, folder = read.read_run(run_dir), Path(run_dir)
    summary, cells = run.summary, upload_columns(run.clients)
    hashes = run.sha256
    if params := summary.get("params_sha256"):
        hashes = hashes | {"final parameters": params}
    return page.write(
        folder / "report.html",
        "run.html",
        plots=[*curves(run), *contributions.attribute_plots(run), *quality.plots(run)],
        data={"cells": cells, "context": context(run)},
        scripts=("explain.js", "cells.js") if cells else (),
        run=run,
        public=protection.write_protection_page(run, folder),
        spent=labels.least_spent(summary),
        sentences=headline.sentences(folder, summary),
        attributes=contributions.ranked(run),
        clients=contributions.client_table(run),
        origin=provenance.record("train", run.config, run.metrics, hashes),
    )


_CELLS = toml_beside(__file__, "assets/cells.toml")  # fields of clients.jsonl


def upload_columns(clients: list[Record]) -> Record:
    """clients.jsonl by column; {} where all uploads have the same noise and no value.

    Each field's name stands in the page once.
    """
    columns: Record = {
        name: [row.get(name) for row in clients] for name in _CELLS["numbers"]
    }
    if all(len({*columns[name]}) < 2 for name in _CELLS["different"]):
        return {}
    for name in ("shapley_values", "utilities"):
        lists = [row.get(name) or () for row in clients]
        columns[name] = [*itertools.zip_longest(*lists)]
    if len(columns["utilities"]) > _MOST_COALITIONS:
        columns["utilities"] = []
    return columns


def context(run: read.RunFiles) -> Record:
    """The data that the explanations of all uploads share; null where unknown.

    The private attribute's index and the attributes' names come from summary.json,
    because the setting private_attribute may be a class of the data set.
    """
    config, summary = run.config, run.summary
    about = mechanisms.about(str(config.get("mechanism")))
    status = (summary.get("status") or {}).get("basic", "")
    return {
        "label": about.label,
        "formula": about.explain(config),
        "clipping": config.get("clipping"),
        "contribution_release": config.get("contribution_release"),
        "meaning": meaning(summary, status),
        "clients": summary.get("client_names") or [],
        "attributes": summary.get("attributes") or [],
        "private_attribute": summary.get("private_attribute"),
    }
