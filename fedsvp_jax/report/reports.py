"""report.html of a run and of a sweep, protection.html, and compare.html of several."""

import datetime
import itertools
from collections.abc import Sequence
from pathlib import Path

from fedsvp_jax.core.files import AnyPath, Record, sha256, toml_beside
from fedsvp_jax.run.trained_model import SCHEMA, load_model, schema_of

from . import (
    coefficients,
    contributions,
    epsilon_page,
    guarantees,
    headline,
    page,
    quality,
    read,
    tables,
)
from .curves import compare_curves, curves

_MOST_COALITIONS = 64  # whose utilities the page shows for every upload


def write_run_report(run_dir: AnyPath) -> Path:
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
    values: Record = {
        "run": run,
        "schema": schema_of(folder),
        "effects": coefficients.effects(run, folder),
        "reference": headline.content(folder / headline.REFERENCE),
    }
    if values["effects"]:
        page.write(folder / "coefficients.csv", "coefficients.csv", **values)
    return page.write(
        folder / "report.html",
        "run.html",
        plots=[*curves(run), *contributions.attribute_plots(run), *quality.plots(run)],
        data={"cells": upload_columns(run.clients)},
        **values,
        public=_write_protection_page(run, folder),
        sentences=headline.sentences(folder, run.summary),
        attributes=contributions.ranked(run),
    )


def write_coefficients(model_file: AnyPath) -> Path:
    """Writes coefficients.csv beside a model file, by that file alone.

    It is as public as the model: the columns private_… are empty, since standard errors
    depend on the curvature of the loss, which the training rows decide.

    Raises:
      ValueError: it is no file of a logistic model of two classes on a table.
    """
    file = Path(model_file)
    model = load_model(file)
    schema = model.schema
    if schema is None or (model.settings["model"], len(schema.classes)) != (
        "logistic",
        2,
    ):
        raise ValueError(
            f"{file} has no odds ratios: only a logistic model of two classes on a "
            "table has them"
        )
    return page.write(
        file.with_name("coefficients.csv"),
        "coefficients.csv",
        schema=schema,
        effects=coefficients.log_odds(schema, **model.params),
        reference={},
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


def _write_protection_page(run: read.RunFiles, folder: Path) -> Path | None:
    """Writes FOLDER/protection.html; none for a run that claims no ε or goes on.

    What the run promises, for those who answer for the records. The page
    holds nothing but what may be published (docs/privacy.md): settings, guarantees,
    the score with noise of its own, and the hash of the model. Hashes of config.json
    and of other files stay out, since who knows all records but one could confirm a
    guess by them.

    The parts of the differential privacy pyramid are those of NIST SP 800-226 (March
    2025). Parts that this program cannot know are marked as open.
    """
    summary, config = run.summary, run.config
    path = folder / "protection.html"
    if run.unfinished or guarantees.main(summary) is None:
        path.unlink(missing_ok=True)  # an earlier run's
        return None
    written = (folder / "summary.json").stat().st_mtime
    schema = folder / SCHEMA
    return page.write(
        path,
        "protection.html",
        folder=folder,
        config=config,
        ended=datetime.datetime.fromtimestamp(written, datetime.UTC).date(),
        schema=schema_of(folder),
        schema_sha256=schema.is_file() and sha256(schema),
        summary=summary,
    )


def write_sweep_report(sweep_dir: AnyPath) -> Path:
    """Writes SWEEP_DIR/report.html from config.json and results.jsonl alone.

    Arguments, result and errors are those of `write_run_report`, of a sweep's folder.
    """
    sweep = read.read_sweep(sweep_dir)
    epsilon_page.write_epsilon_page(sweep_dir, epsilon_page.document(sweep))
    rows = tables.summarize(sweep.results, sweep.cells)
    return page.write(
        Path(sweep_dir) / "report.html",
        "sweep.html",
        plots=curves(sweep),
        rows=rows,
        sweep=sweep,
    )


def write_compare_report(folders: Sequence[AnyPath], output_dir: AnyPath) -> Path:
    """Writes OUTPUT_DIR/compare.html from the folders' files alone.

    Args:
      folders: at least two folders, each of a run or of a sweep.
      output_dir: where the page is written; created if it does not exist.

    Raises:
      ValueError: as `read.read_all`.
    """
    files = read.read_all(folders)
    return page.write(
        Path(output_dir) / "compare.html",
        "compare.html",
        plots=compare_curves(files),
        files=files,
    )
