"""Experiment C: are the published gaps an artefact of baselines of two ages?

FedSVA's Table 1 shares baselines with FedSDP's Table I, and FedAvg moved in between.
docs/results/mixed_baselines.md registers the model, its priors and the rule of every
verdict, and says which code fitted it. Here is what writes the page's table.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from fedsvp_jax.report.text_table import markdown

from .. import docs_blocks

Json = dict[str, Any]


def table(kept: Json) -> str:
    """The fits, a row for each scenario and reading."""
    words = {"own": "each table its own FedAvg", "mixed": "baselines the older FedAvg"}
    return markdown(
        [
            {
                "scenario": name,
                "reading": words[reading],
                "FedSVA's noise ÷ NbAFL's": _shown(one["factor"]),
                "misfit τ, points": _shown(one["tau"]),
                "log evidence": f"{one['log_evidence']:.1f}",
                "effective draws": f"{one['effective_draws']:,}",
                "verdict": result["verdict"],
            }
            for name, result in kept["scenarios"].items()
            for reading, one in result["readings"].items()
        ]
    )


def _shown(values: Sequence[float]) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*values)


def rewrite(docs: pathlib.Path) -> pathlib.Path:
    """Writes the page's table from the kept result."""
    folder = docs / "results"
    made = docs_blocks.made_from(folder / "mixed_baselines.json", table)
    return docs_blocks.rewrite(folder / "mixed_baselines.md", {"mixed_baselines": made})
