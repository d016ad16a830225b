"""Writes the measured parts of docs/shapley.md.

  python -m experiments.shapley.docs_page --keep_studies=digits_n5=runs/shapley

Each file of docs/results/shapley is the results.json of one `experiments.shapley`.
--keep_studies adds or replaces such files.
"""

import json
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

from absl import flags

from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run.folder import write_json

from .. import command, docs_blocks

flags.DEFINE_list("keep_studies", [], "NAME=FOLDER: studies to copy to docs/results.")
flags.DEFINE_string(
    "shapley_docs_dir", "docs", "Folder that holds shapley.md and results/."
)

_LATE = 10  # the round from which a model has learned something
_HEAD = [
    "study",
    "estimator",
    "trainings",
    "steps",
    "error of R",
    "error of ψ",
    "interval of ψ holds",
    "of R",
    "± (mean)",
]

Study = dict[str, Any]  # results.json of one `experiments.shapley`


def keep(name: str, folder: pathlib.Path, docs_dir: pathlib.Path) -> None:
    """Copies a study to results/shapley/NAME.json."""
    target = docs_dir / "results" / "shapley"
    target.mkdir(parents=True, exist_ok=True)
    write_json(
        target / f"{name}.json", json.loads((folder / "results.json").read_text())
    )


def studies(docs_dir: pathlib.Path) -> list[Study]:
    """Every kept study, by name."""
    files = sorted((docs_dir / "results" / "shapley").glob("*.json"))
    return [json.loads(file.read_text()) for file in files]


def error_table(kept: Sequence[Study], *, late: bool) -> str:
    """Error against cost, as means over the rounds before round 10 or from it on."""
    rows = []
    for study in kept:
        named = (
            f"{study['dataset']}, {study['model']}, N = {study['num_attributes']},"
            f" {study['utility']}"
        )
        table = [row for row in study["table"] if (row["round"] >= _LATE) == late]
        for name in dict.fromkeys(row["estimator"] for row in table):
            mine = [row for row in table if row["estimator"] == name]
            squares = statistics.fmean(row["value_error"] ** 2 for row in mine)
            rows.append(
                [
                    named,
                    f"`{name}`",
                    _mean(mine, "trainings", 1),
                    _mean(mine, "steps", 2),
                    _mean(mine, "ratio_error", 3),
                    f"{squares**0.5:.3f}",
                    _mean(mine, "covered", 2),
                    _mean(mine, "ratio_covered", 2),
                    _mean(mine, "margin", 3),
                ]
            )
    return markdown([dict(zip(_HEAD, row, strict=True)) for row in rows])


def round_table(kept: Sequence[Study]) -> str:
    """The error of R by round, of every estimator."""
    blocks = []
    for study in kept:
        rounds = list(dict.fromkeys(row["round"] for row in study["table"]))
        names = list(dict.fromkeys(row["estimator"] for row in study["table"]))
        found = {(row["estimator"], row["round"]): row for row in study["table"]}
        head = [
            f"{study['dataset']}, N = {study['num_attributes']}: round",
            *map(str, rounds),
        ]
        rows = [
            [f"`{name}`", *(f"{found[name, r]['ratio_error']:.3f}" for r in rounds)]
            for name in names
        ]
        blocks.append(markdown([dict(zip(head, row, strict=True)) for row in rows]))
    return "\n".join(blocks)


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes shapley.md's blocks from the kept studies; returns the page's path."""
    kept, path = studies(docs_dir), docs_dir / "shapley.md"
    text = docs_blocks.rewritten(
        path.read_text(),
        {
            "late": lambda: error_table(kept, late=True),
            "early": lambda: error_table(kept, late=False),
            "by_round": lambda: round_table(kept),
        },
    )
    path.write_text(text)
    return path


def _mean(rows: Sequence[dict[str, Any]], name: str, digits: int) -> str:
    known = [row[name] for row in rows if row[name] is not None]
    return f"{statistics.fmean(known):.{digits}f}" if known else "–"


def main(_: list[str]) -> None:
    """Keeps the studies of --keep_studies and writes the page's blocks anew."""
    values = flags.FLAGS
    docs_dir = pathlib.Path(values.shapley_docs_dir)
    named = command.named_folders(values.keep_studies, "keep_studies")
    for name, folder in named.items():
        keep(name, folder, docs_dir)
    print(rewrite(docs_dir))


if __name__ == "__main__":
    command.run(main, __doc__)
