"""The table of --goal=proved on docs/own_data.md: what is left of tables at ε = 3.

  python -m experiments.goal_table --files=flchain=flchain.arff,adult=adult.csv
  python -m experiments.pages own_data

The first trains the route and FedAvg on five seeds of every table that has a file (and
of scikit-learn's breast cancer, which needs none), as `fedsvp schema`, `schema
--confirm` and `train --goal=proved` do, and keeps a row per run in
docs/results/goal.jsonl; the second writes the table from these rows.
"""

import csv
import dataclasses
import pathlib
import statistics
import tempfile
from typing import Any

import numpy as np
from absl import flags

from fedsvp_jax.data.formats import csv_file, schema
from fedsvp_jax.datasets import draft
from fedsvp_jax.report.text_table import markdown

from . import command, docs_blocks, goal, kept_rows, provenance

FILE = "goal.jsonl"
_EPSILON = 3.0
_SEEDS = range(5)
# Table, its label, and clients; None: those that its client column names, or one.
CASES = (
    ("breast_cancer", "finding", None),
    ("breast_cancer", "finding", 10),
    ("flchain", "death", None),
    ("adult", None, None),
)
_TOWNS = (
    *("Aarau", "Basel", "Bern", "Biel", "Chur", "Genf"),
    *("Luzern", "Olten", "Sion", "Thun", "Zug", "Zürich"),
)
_KEPT = ("accuracy", "auc", "guessing")


def _breast_cancer(folder: pathlib.Path) -> pathlib.Path:
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer(as_frame=True).frame
    table["finding"] = table.pop("target").map({0: "malignant", 1: "benign"})
    path = folder / "breast_cancer.csv"
    table.to_csv(path, index=False)
    return path


def _flchain(path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """scikit-survival's flchain.arff as a CSV file, with twelve hospitals.

    Without futime and chapter, which tell of death; each row is of a hospital drawn in
    unequal shares (Dirichlet of 4). The file has 17 % of its creatinine missing.
    """
    rows = path.read_text().split("@data", 1)[1].split("\n")
    cells = [[cell.strip("' ") for cell in row.split(",")] for row in rows if row]
    heads = [line.split()[1].strip("'") for line in path.read_text().split("\n")
             if line.lower().startswith("@attribute")]  # fmt: skip
    kept = [name for name in heads if name not in ("futime", "chapter")]
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(_TOWNS), len(cells), p=rng.dirichlet([4] * len(_TOWNS)))
    target = folder / "flchain.csv"
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["hospital", *kept])
        for row, town in zip(cells, drawn, strict=True):
            told = dict(zip(heads, row, strict=True))
            writer.writerow([_TOWNS[town], *(told[name] for name in kept)])
    return target


def _confirmed(path: pathlib.Path, label: str | None, folder: pathlib.Path) -> str:
    """The schema that is drafted of a table, with every entry stated."""
    columns = csv_file.read_csv(path)
    guessed, client = draft.guessed(columns)
    label = label or guessed
    assert label is not None
    found, _ = draft.proposed(columns, label=label, client=client, what=str(path))
    stated = {
        name: dataclasses.replace(column, from_data=False)
        for name, column in found.columns.items()
    }
    found = dataclasses.replace(found, columns=stated, classes_from_data=False)
    place = folder / f"{path.stem}.toml"
    place.write_text(schema.to_toml(found, {}, ""))
    return str(place)


def _rows(
    case: tuple[str, str | None, int | None],
    path: pathlib.Path,
    folder: pathlib.Path,
    done: set[tuple[str, int, int]],
) -> Any:
    """A row per seed that has none: `done` has table, clients and seed."""
    from fedsvp_jax import run
    from fedsvp_jax.config import ExperimentConfig, resolve
    from fedsvp_jax.data import sources

    name, label, dealt_to = case
    dealt: dict[str, Any] = {} if dealt_to is None else {"num_clients": dealt_to}
    given = ExperimentConfig(
        dataset="csv",
        data_dir=str(path),
        schema=_confirmed(path, label, folder),
        total_epsilon=_EPSILON,
        **dealt,
    )
    data = sources.load(given.dataset, given.data_dir, given)
    settings = goal.route_settings(given, data)
    clients = resolve(dataclasses.replace(given, **settings), data).num_clients
    for seed in [one for one in _SEEDS if (name, clients, one) not in done]:
        with tempfile.TemporaryDirectory() as place, run.shared_programs():
            config = resolve(dataclasses.replace(given, seed=seed, **settings), data)
            private = run.train(config, f"{place}/run", dataset=data)
            told = resolve(ExperimentConfig(**goal.reference(config)), data)
            bare = run.train(told, f"{place}/fedavg", dataset=data)
        yield {
            "table": name,
            "clients": config.num_clients,
            "named": dealt_to is None and data.train_writers is not None,
            "epsilon": private["epsilon_spent"]["pld"],
            "status": private["status"]["pld"],
            "adversary": private["adversary"],
            **{one: private["test_scores"][one] for one in _KEPT},
            "fedavg": {one: bare["test_scores"][one] for one in _KEPT},
            "provenance": provenance.stamp(data, seed),
        }


def _spread(values: list[float], digits: int) -> str:
    """Mean ± standard deviation over seeds."""
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):.{digits}f} ± {std:.{digits}f}"


def table(rows: list[dict[str, Any]]) -> str:
    """One line per table and number of clients: mean and std over seeds."""
    lines = []
    for name, clients in dict.fromkeys((row["table"], row["clients"]) for row in rows):
        of = [row for row in rows if (row["table"], row["clients"]) == (name, clients)]
        bare = [row["fedavg"] for row in of]
        percent = _spread([100 * row["accuracy"] for row in of], 1)
        lines.append(
            {
                "table": name.replace("_", " "),
                "clients": f"{clients}, by name" if of[0]["named"] else str(clients),
                "accuracy %": percent,
                "AUC": _spread([row["auc"] for row in of], 3),
                "FedAvg, which hides nothing": _spread(
                    [100 * one["accuracy"] for one in bare], 1
                ),
                "guessing %": f"{100 * of[0]['guessing']:.1f}",
                "test rows": f"{of[0]['provenance']['data']['test']:,}",
                "seeds": str(len(of)),
                "status": ", ".join(dict.fromkeys(row["status"] for row in of)),
            }
        )
    return markdown(lines)


def rewrite(docs_dir: pathlib.Path) -> pathlib.Path:
    """Writes the table from the kept rows."""
    block = docs_blocks.made_from(docs_dir / "results" / FILE, table)
    return docs_blocks.rewrite(docs_dir / "own_data.md", {"goal": block})


def main(_: list[str]) -> None:
    """Trains what has no rows."""
    file = docs_blocks.DOCS / "results" / FILE
    done = {
        (row["table"], row["clients"], row["provenance"]["seed"])
        for row in kept_rows.read(file)
    }
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        files = command.named_folders(flags.FLAGS.files, "files")
        files["breast_cancer"] = _breast_cancer(folder)
        if "flchain" in files:
            files["flchain"] = _flchain(files["flchain"], folder)
        for case in CASES:
            if case[0] in files:
                for row in _rows(case, files[case[0]], folder, done):
                    kept_rows.add(file, row)


if __name__ == "__main__":
    flags.DEFINE_list("files", [], "The tables, NAME=FILE.csv with commas between.")
    command.run(main, __doc__)
