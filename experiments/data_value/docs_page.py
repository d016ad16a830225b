"""Writes docs/results/data_value.md from its rows, by the registered rules."""

import collections
import pathlib
import statistics
from functools import partial

from fedsvp_jax.report.text_table import markdown

from .. import docs_blocks, kept_rows, provenance
from . import analysis
from .registered import DATASETS, FEDERATIONS, LEAST_AREA, NOISES, REFERENCE


def rows_of(results: pathlib.Path) -> analysis.Rows:
    """The registered rows that are there."""
    return {
        name: [
            row
            for file in sorted(results.glob(f"{name}_*.jsonl"))
            for row in kept_rows.read(file)
            if row["seed"] < FEDERATIONS
        ]
        for name in DATASETS
    }


def _complete(rows: analysis.Rows) -> bool:
    return all(len(part) == FEDERATIONS for part in rows.values())


def state(rows: analysis.Rows) -> str:
    """How many rows there are, and which code computed them."""
    every = [row for part in rows.values() for row in part]
    commits = collections.Counter(row["provenance"]["commit"] for row in every)
    by_commit = ", ".join(f"{count} by `{one}`" for one, count in commits.items())
    hours = sum(row["cpu_s"] for row in every) / 3600
    counted = ", ".join(f"{len(rows[name])} {name}" for name in DATASETS)
    unfinished = "" if _complete(rows) else " **Unfinished: no verdict.**"
    return (
        f"Federations computed: {counted}, of {FEDERATIONS} each.{unfinished} CPU "
        f"hours: {hours:.2f}. Rows by the code's commit: {by_commit or 'none'}."
    )


def data(rows: analysis.Rows) -> str:
    """The data sets of the rows."""
    return provenance.data_table([row for part in rows.values() for row in part])


def answer(rows: analysis.Rows) -> str:
    """The answer, once all rows are there."""
    if not _complete(rows):
        return "No verdict before all rows are there."
    return analysis.headline(analysis.all_findings(rows))


def gains(rows: analysis.Rows) -> str:
    """Every hypothesis under every ledger, once all rows are there."""
    if not _complete(rows):
        return "No verdict before all rows are there."
    lines = []
    for ledger, found in analysis.all_findings(rows).items():
        for one in found:
            cells = [
                f"{effect.mean:+.2f} ({effect.low:+.2f} to {effect.high:+.2f})"
                for effect in one.effects
            ]
            lines.append(
                {
                    "ledger": ledger,
                    "data set": one.dataset,
                    "": one.hypothesis.name,
                    "arm": one.hypothesis.says,
                    "against uniform": cells[0],
                    "against the placebo": cells[1],
                    "verdict": f"**{one.verdict}**",
                }
            )
    return markdown(lines)


def gate(rows: analysis.Rows) -> str:
    """What the attack sees, once all rows are there."""
    if not _complete(rows):
        return "Not shown before all rows are there."
    lines = []
    for name in DATASETS:
        part = rows[name]

        def mean(score: str, part: list[analysis.Row] = part) -> str:
            numbers = [row[score] for row in part if score in row]
            return f"{statistics.fmean(numbers):.2f}" if numbers else "–"

        place = NOISES.index(REFERENCE)
        tpr = [analysis.curve(row, "uniform", "tpr")[place] for row in part]
        accuracy = [analysis.curve(row, "uniform", "accuracy")[place] for row in part]
        lines.append(
            {
                "data set": name,
                "area without noise": f"{analysis.area(part):.3f}, gate {LEAST_AREA}",
                "TPR at 1 % FPR, reference": f"{100 * statistics.fmean(tpr):.2f} %",
                "accuracy, reference": f"{100 * statistics.fmean(accuracy):.1f} %",
                "reliability of values": mean("value_reliability"),
                "of R": mean("ratio_reliability"),
            }
        )
    return markdown(lines)


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes the page's blocks from the kept rows."""
    rows = rows_of(docs_dir / "results" / "data_value")
    writers = (state, data, gate, answer, gains)
    return docs_blocks.rewrite(
        docs_dir / "results" / "data_value.md",
        {writer.__name__: partial(writer, rows) for writer in writers},
    )
