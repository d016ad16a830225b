"""Writes the tables of docs/results/utility.md from the folder beside it."""

import pathlib
from collections.abc import Sequence
from typing import Any

from fedsvp_jax.report import labels, tables
from fedsvp_jax.report.text_table import MISSING, markdown

from .. import docs_blocks
from ..reproduce import estimates
from . import noise_bits

Row = dict[str, Any]
TABLES = (
    *("mnist_mlp", "femnist_cnn", "adult_sex", "adult_race"),
    *("mnist_once", "femnist_once", "femnist_writers"),
)
_BANDS = {28: 10, 56: 5}  # size of the cohorts -> bands of the correlated noise


def table(rows: Sequence[Row]) -> str:
    """One line per route and ε, over its seeds, in the order of the first seed."""
    lines = []
    for key in dict.fromkeys((row["route"], row["total_epsilon"]) for row in rows):
        mine = [row for row in rows if (row["route"], row["total_epsilon"]) == key]
        first = mine[0]
        spent = [row["spent_pld"] for row in mine if row["spent_pld"] is not None]
        claim = "–"
        if first["status"]:
            claim = f"{max(spent):.2f} of {key[1]:g} ({first['status']})"
        lines.append(
            {
                "route": key[0],
                "ε spent of promised (PLD)": claim,
                "ε of all copies": _of_copies(mine),
                "adversary": first["adversary"] or "–",
                "relation": first["relation"] or "–",
                "accuracy %": _shown(mine, "accuracy"),
                "private group %": _shown(mine, "private_accuracy"),
                "worst tenth of clients %": _shown(mine, "worst_tenth_accuracy"),
                "seeds": str(len(mine)),
            }
        )
    return markdown(lines)


def gaps(rows: Sequence[Row]) -> str:
    """Correlated minus independent noise, paired by seed, by size of the cohorts."""
    lines = []
    for size, bands in _BANDS.items():
        by_seed = [
            {
                row["seed"]: row["accuracy"]
                for row in rows
                if row["route"] == f"{noise}, cohorts of {size}"
            }
            for noise in (f"correlated, b = {bands}", "independent noise")
        ]
        seeds = sorted(by_seed[0].keys() & by_seed[1].keys())
        gap = estimates.paired(*([one[seed] for seed in seeds] for one in by_seed))
        if gap is None or gap.interval is None:
            return MISSING
        low, high = gap.interval
        lines.append(
            {
                "cohorts of": str(size),
                "correlated − independent, points": f"{gap.value:+.1f}",
                "95 % interval": f"{low:+.1f} to {high:+.1f}",
                "seeds": str(gap.num_seeds),
            }
        )
    return markdown(lines)


def _of_copies(rows: Sequence[Row]) -> str:
    """The most that a record spends with all its copies, and how many these are."""
    claimed = [row for row in rows if row.get("copies") is not None]
    if not claimed:
        return "–"
    copies = max(row["copies"] for row in claimed)
    if copies == 1:
        return "the same"
    spent = max(row["spent_of_copies"] for row in claimed)
    return f"{spent:.2f} ({copies} copies)"


def _shown(rows: Sequence[Row], name: str) -> str:
    return labels.percent(*tables.mean_std(tables.present(rows, name)), digits=1)


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes results/utility.md from the kept rows; returns the page's path."""
    folder = docs_dir / "results" / "utility"
    blocks = {
        name: docs_blocks.made_from(folder / f"{name}.jsonl", table) for name in TABLES
    }
    writers = folder / "femnist_writers.jsonl"
    blocks["femnist_writers_gap"] = docs_blocks.made_from(writers, gaps)
    bits = folder / "noise_bits.json"
    blocks["noise_bits"] = docs_blocks.made_from(bits, noise_bits.table)
    return docs_blocks.rewrite(docs_dir / "results" / "utility.md", blocks)
