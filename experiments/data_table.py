"""The tables of docs/results/data.md: what was read, and which rows name a commit.

  python -m experiments.data_table --data_dir=$FEDSVP_DATA
  python -m experiments.pages data

The first reads every data set and keeps its counts in docs/results/data.jsonl; the
second writes the tables from kept rows.
"""

import collections
import pathlib
from typing import Any

import numpy as np
from absl import flags

from fedsvp_jax.data import sources
from fedsvp_jax.report.text_table import markdown

from . import command, docs_blocks, kept_rows, provenance

FILE = "data.jsonl"
# Name, folder below --data_dir, and where the files are from.
DATA = (
    ("digits", None, "scikit-learn's copy of the UCI optical digits (their test part)"),
    ("mnist", "mnist", "the four IDX files"),
    (
        "femnist",
        "femnist",
        "LEAF's JSON, a sample of 300 writers; not EMNIST ByClass, which the papers' "
        "code reads",
    ),
    ("cifar10", "cifar-10-batches-bin", "the binary version"),
    (
        "cifar100",
        "cifar-100-binary",
        "the binary version; our copy holds half of the 50,000 training images",
    ),
    ("adult", "adult", "UCI Adult as one CSV file"),
)


def row_of(name: str, source: str, folder: pathlib.Path | None) -> dict[str, Any]:
    """Counts of one data set, with its hash in the provenance."""
    data = sources.load(name, folder)
    largest = np.bincount(data.train_labels).max() / len(data.train_labels)
    writers = data.train_writers
    return {
        "name": name,
        "source": source,
        "shape": "×".join(map(str, data.example_shape)),
        "classes": data.num_classes,
        "largest_class": round(float(largest), 4),
        "writers": None if writers is None else len(np.unique(writers)),
        "provenance": provenance.stamp(data, None),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """One line per data set."""
    lines = []
    for row in rows:
        facts = row["provenance"]["data"]
        lines.append(
            {
                "data set": row["name"],
                "source": row["source"],
                "training examples": f"{facts['train']:,}",
                "test examples": f"{facts['test']:,}",
                "of an example": row["shape"],
                "classes": str(row["classes"]),
                "largest class": f"{100 * row['largest_class']:.1f} %",
                "writers": "–" if row["writers"] is None else str(row["writers"]),
                "SHA-256 of the content": f"`{facts['sha256']}`",
            }
        )
    return markdown(lines)


def older(results: pathlib.Path) -> str:
    """How many kept rows of each study name no commit."""
    counts = collections.Counter(
        file.relative_to(results).parts[0].split(".")[0]
        for file, row in provenance.kept(results)
        if provenance.fault(row) is not None
    )
    return ", ".join(f"`{study}` {count}" for study, count in counts.items()) + "."


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes the tables from the kept rows."""
    results = docs_dir / "results"
    blocks = {
        "data": docs_blocks.made_from(results / FILE, table),
        "older": lambda: older(results),
    }
    return docs_blocks.rewrite(results / "data.md", blocks)


def main(_: list[str]) -> None:
    """Reads the data sets that have no row."""
    file = docs_blocks.DOCS / "results" / FILE
    data_dir = pathlib.Path(flags.FLAGS.data_dir)
    done = {row["name"] for row in kept_rows.read(file)}
    for name, folder, source in DATA:
        if name not in done:
            place = None if folder is None else data_dir / folder
            kept_rows.add(file, row_of(name, source, place))


if __name__ == "__main__":
    flags.DEFINE_string("data_dir", None, "Folder of the data sets.", required=True)
    command.run(main, __doc__)
