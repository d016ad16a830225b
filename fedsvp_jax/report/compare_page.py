"""compare.html: several runs and sweeps on the same axes, and how they differ."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsvp_jax import mechanisms
from fedsvp_jax.report import (
    guarantees,
    headline,
    labels,
    page,
    provenance,
    read,
    spent,
    style,
    tables,
)
from fedsvp_jax.report.plots import Plot
from fedsvp_jax.report.run_plots import run_plots
from fedsvp_jax.report.sweep_plots import sweep_plots

Files = read.RunFiles | read.SweepFiles


def write_compare_report(
    folders: Sequence[str | Path],
    output_dir: str | Path,
    *,
    timestamp: str | None = None,
) -> Path:
    """Writes OUTPUT_DIR/compare.html from the folders' files alone.

    Args:
      folders: at least two folders, each of a run or of a sweep.
      output_dir: where the page is written; created if it does not exist.
      timestamp: as of `write_run_report`, with its result and errors.

    Raises:
      ValueError: fewer than two folders.
    """
    files = read_all(folders)
    plots = compare_plots(files)
    rows = comparison_table(files)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    cells = [list(row.values()) for row in rows]
    sections = [
        (
            "results",
            "Results",
            page.table(list(columns), cells, caption=_CAPTION)
            + _nominal(files)
            + page.part(
                "paragraphs",
                [
                    f"{name}: {sentence}"
                    for name, result in files.items()
                    if (sentence := headline.unprotected(result.config))
                ],
            )
            + page.part("download", "table", "the table"),
        ),
        (
            "curves",
            "Curves",
            page.part("grid", plots),
        ),
        ("settings", "Settings that differ", _differences(files)),
    ]
    return page.write(
        Path(output_dir) / "compare.html",
        title=", ".join(files),
        subtitle=f"{len(files)} folders compared",
        sections=sections,
        data={
            "plots": [
                *page.plot_data(plots),
                {"id": "table", "spec": None, "columns": columns},
            ]
        },
        timestamp=timestamp,
    )


def read_all(folders: Sequence[str | Path]) -> dict[str, Files]:
    """The folders' files by a short name: the path relative to their common parent.

    Raises:
      ValueError: as `write_compare_report`.
    """
    paths = list(dict.fromkeys(Path(os.path.abspath(folder)) for folder in folders))
    if len(paths) < 2:
        raise ValueError(f"a comparison needs at least two folders, got {len(paths)}")
    common = os.path.commonpath([path.parent for path in paths])
    return {
        os.path.relpath(path, common): read.read_sweep(path)
        if read.is_sweep(path)
        else _ended_run(path)
        for path in paths
    }


def _ended_run(path: Path) -> read.RunFiles:
    run = read.read_run(path)
    if run.unfinished is not None:
        raise ValueError(f"{path} cannot be compared: {run.unfinished}")
    return run


_CAPTION = (
    "One row per run; for a sweep one row per mechanism and ε, with mean ± std over"
    " seeds. Best: test accuracy of the best round, which the validation set picks in a"
    " folder that has one (validation_examples), else the test set itself. ε spent:"
    " after the last round; for a sweep, the largest over seeds. Basic"
    " composition holds at Σδ, the sum of the uploads' δ. Nominal: not proved."
)


def compare_plots(files: dict[str, Files]) -> list[Plot]:
    """Every plot that a folder has, with all folders' curves in one panel.

    A folder has the look of its mechanism where these are different mechanisms of
    single runs; elsewhere folders are numbered. The curves of one folder have its
    colour and differ in marker and dashes.
    """
    merged: dict[str, Plot] = {}
    titles: dict[str, dict[str, str]] = {}  # of the y axis, by plot and folder
    for (name, result), look in zip(files.items(), _looks(files), strict=True):
        plots = run_plots(result) if isinstance(result, read.RunFiles) else []
        if isinstance(result, read.SweepFiles):
            plots = sweep_plots(result.results)
        for plot in plots:
            single = len(plot.series) == 1
            series = [
                dataclasses.replace(
                    curve,
                    keys={"folder": name, **curve.keys},
                    name=name if single else f"{name}: {curve.name}",
                    panel="",
                    look=look
                    if single
                    else style.numbered(place)._replace(color=look.color),
                )
                for place, curve in enumerate(plot.series)
            ]
            before = merged.setdefault(plot.id, dataclasses.replace(plot, series=[]))
            before.series.extend(series)
            titles.setdefault(plot.id, {})[name] = plot.y_title
    return [
        dataclasses.replace(plot, y_title=_common_title(titles[plot.id]))
        for plot in merged.values()
    ]


def _looks(files: dict[str, Files]) -> list[style.Look]:
    """A look per folder: its mechanism's, where no two folders share one."""
    names = [
        str(result.config.get("mechanism"))
        for result in files.values()
        if isinstance(result, read.RunFiles)
    ]
    if len(set(names)) == len(files):
        return [style.of_mechanism(name) for name in names]
    return [style.numbered(place) for place in range(len(files))]


def _common_title(titles: dict[str, str]) -> str:
    """The title of an axis; one title per folder where δ or status of ε differ."""
    if len(set(titles.values())) == 1:
        return next(iter(titles.values()))
    return "; ".join(f"{name}: {title}" for name, title in titles.items())


def comparison_table(files: dict[str, Files]) -> list[dict[str, str]]:
    """One row per run, and per mechanism and ε of a sweep."""
    cells: list[tuple[str, ...]] = []
    groups: list[tuple[tables.Spread, tables.Spread]] = []  # of the same rows
    summaries: list[dict[str, Any]] = []  # likewise: what they spent
    for name, result in files.items():
        if isinstance(result, read.SweepFiles):
            for row in tables.summarize(result.results):
                best = labels.percent(row.best_mean, row.best_std)
                last5 = labels.percent(row.last5_mean, row.last5_std)
                label = mechanisms.about(row.mechanism).label
                epsilon = labels.significant(row.epsilon)
                cells.append((name, label, epsilon, best, last5))
                groups.append(row.groups)
                summaries.append(dataclasses.asdict(row))
            continue
        accuracy, mean, std, private, worst = (
            read.number(result.summary.get(key))
            for key in (
                "best_accuracy",
                "final5_accuracy",
                "final5_std",
                "final5_private_accuracy",
                "final5_worst_tenth_accuracy",
            )
        )
        groups.append(((private, None), (worst, None)))
        label = mechanisms.about(str(result.config.get("mechanism"))).label
        epsilon = spent.upload_claim(result.clients, "epsilon") or "–"
        best, last5 = labels.percent(accuracy), labels.percent(mean, std)
        cells.append((name, label, epsilon, best, last5))
        summaries.append(result.summary)
    head = ("folder", "mechanism", "ε per upload", "best %", "last 5 %")
    return [
        dict(zip(head, row, strict=True)) | group | cost
        for row, group, cost in zip(
            cells,
            tables.group_cells(groups),
            spent.least_columns(summaries),
            strict=True,
        )
    ]


def _nominal(files: dict[str, Files]) -> page.Markup:
    summaries = {}
    for name, result in files.items():
        if isinstance(result, read.RunFiles):
            summaries[name] = result.summary
            continue
        for cell in result.cells:
            label = mechanisms.about(str(cell.get("mechanism"))).label
            summaries[f"{name}: {label}"] = cell
    return guarantees.nominal_note(summaries)


def _differences(files: dict[str, Files]) -> page.Markup:
    settings = {
        name: provenance.read_settings(result.config) for name, result in files.items()
    }
    names = sorted({key for config in settings.values() for key in config})
    rows = []
    for name in names:
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
