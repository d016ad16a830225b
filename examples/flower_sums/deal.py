"""Deals the published breast cancer table to hospitals, to try a federation with.

    python examples/flower_sums/deal.py FOLDER HOSPITALS

writes FOLDER/hospital-0.csv and so on, of which the first has benign cases alone, rows
for later in new.csv, and schema.toml, which is written without the records. Hospitals
bring their own tables instead: docs/deploy.md.
"""

import csv
import pathlib
import sys

import numpy as np
from sklearn.datasets import load_breast_cancer

SCHEMA = """schema = 1
unit = "row"
test_fraction = 0.1
[label]
column = "finding"
classes = ["benign", "malignant"]
shares = [0.63, 0.37]
[columns.radius]
type = "number"
bounds = [5, 30]
[columns.texture]
type = "number"
bounds = [5, 40]
[columns.concavity]
type = "number"
bounds = [0, 0.5]
"""


def deal(folder: pathlib.Path, hospitals: int) -> None:
    """Writes the schema and the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.toml").write_text(SCHEMA)
    table = load_breast_cancer()
    names = np.array(["malignant", "benign"])[table.target]
    numbers = table.data[:, [0, 1, 6]]
    order = np.random.default_rng(0).permutation(len(names))
    new, rest = order[:69], order[69:]
    first = rest[names[rest] == "benign"][: len(rest) // hospitals]
    others = np.array_split(np.setdiff1d(rest, first), hospitals - 1)
    for file, rows in [
        ("new.csv", new),
        *((f"hospital-{k}.csv", part) for k, part in enumerate([first, *others])),
    ]:
        with (folder / file).open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(["radius", "texture", "concavity", "finding"])
            writer.writerows([*numbers[row], names[row]] for row in rows)


if __name__ == "__main__":
    deal(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
