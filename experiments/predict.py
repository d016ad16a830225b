"""Predicts with the model of a run's folder, and takes the model elsewhere.

  fedsvp predict runs/a new.npy --to=predicted.csv
  fedsvp predict runs/a/model.safetensors new.csv --to=predicted.csv
  fedsvp predict runs/a --export=model.safetensors

MODEL is the --output_dir of `fedsvp train`, or the model file that a run on a table
leaves there and that --export writes. Inputs are an .npy file of examples, (n, *example
shape), as the data set holds them; or, of a run on a table, a file with the same
columns of features. Of a folder the model is that of the newest checkpoint, so a run
that was stopped has one too. The file of predictions has one line per example: its row
in the file of inputs, from 1 as in messages; the predicted class; the probability of
every class; and, of a table, every column that is no feature, such as an id, as the
table has it. Where that holds the class, AUC and accuracy of the rows that name one are
printed. Classes have their names where a schema has them. The model of a table carries
its schema, which encodes the rows of another CSV file; a category that the training did
not have is `*` where the schema has it, and numbers beyond its bounds are clamped, and
counted. A table is refused until --accept_units if a code such as -9 lies beyond, most
of what lies beyond that bound being codes; or a tenth of a column, as in another unit,
or half of it is `*`, and these are more than two cells, or both of two. A row that
lacks a value which the schema does not fill has a blank prediction, and is counted. The
table of the training is not needed. A model that was not shown to be useful on its
run's test rows is predicted with, and a warning says so.

Exit status: 0 done; 2 a folder or file is missing or damaged (one line says why).
"""

import csv
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from . import command, messages

command.define("predict")
_NUMBER = re.compile(r"[+-][0-9.]+([eE][+-]?[0-9]+)?")


def _quoted(name: str) -> str:
    """A name that no spreadsheet takes for a formula; numbers stay as they are."""
    formula = name.startswith(("=", "+", "-", "@")) and _NUMBER.fullmatch(name) is None
    return f"'{name}" if formula else name


def _print_scores(schema: Any, written: Any, chances: np.ndarray) -> None:
    """Prints how well the rows are predicted whose class the file has."""
    from fedsvp_jax.data.tables import encoding, literals, scores

    classes = schema.classes
    labels = encoding.coded(written, (*classes, encoding.OTHERS), schema.label)
    scored = (labels < len(classes)) & ~np.isnan(chances).any(1)
    tested = scored.any() and scores.of_table(chances[scored], labels[scored], classes)
    print(
        messages.filled(
            "scored.txt",
            schema=schema,
            scored=scored,
            tested=tested,
            others=np.unique(np.array(written)[labels == len(classes)]),
            blanks=literals.NO_VALUE,
        )
    )


def main(arguments: Sequence[str]) -> None:
    """Predicts, or exports the model."""
    values = flags.FLAGS
    if len(arguments) != (2 if values.export else 3):
        raise ValueError("name a folder of a run, or a model file, and the inputs")
    if values.to and not values.to.endswith(".csv"):
        raise ValueError(
            f"to must name a .csv file (predictions are CSV), got {values.to}"
        )
    from fedsvp_jax import run
    from fedsvp_jax.data.tables import files, scores, table
    from fedsvp_jax.report import headline

    place = Path(arguments[1])
    trained = run.load_model(place)
    schema = trained.schema
    folder = place.parent if place.is_file() else place
    target = Path(values.export or values.to or folder / "predictions.csv")
    if target.exists():
        raise ValueError(
            f"{target} exists; name another file by "
            f"--{'export' if values.export else 'to'}"
        )
    if values.export:
        trained.save(values.export)
        print(f"model after {trained.rounds} rounds: {values.export}")
        return
    source = Path(arguments[2])
    carried: dict[str, Any] = {}
    blank: Any = False
    if schema is not None and source.suffix != ".npy":
        encoded, carried = table.load_rows(source, schema)
        blank = np.isnan(encoded.inputs).any(1, keepdims=True)
        inputs = np.where(blank, 0, encoded.inputs)
        messages.check_units("predict", encoded, schema, values)
        print(messages.filled("predict.txt", schema=schema, encoded=encoded), end="")
    else:
        with files.readable(source, "; it is not an .npy file of numbers"):
            inputs = np.load(source, allow_pickle=False)
    if trained.scores is not None and trained.scores.get("verdict") != scores.BETTER:
        quality = headline.filled("quality", {"test_scores": trained.scores})
        warnings.warn(f"{place}: {quality}", stacklevel=1)
    if schema is not None and (parts := schema.from_records):
        warnings.warn(
            f"{place}: its claims are nominal, and it holds what was read off the "
            f"records: {parts[0]}{' and more' * (len(parts) > 1)}",
            stacklevel=1,
        )
    chances = np.where(blank, np.nan, trained.probabilities(inputs))
    names = [*map(str, range(chances.shape[1]))]
    if schema is not None:
        names = [*map(_quoted, schema.classes)]
        if schema.label in carried:
            _print_scores(schema, carried[schema.label], chances)
    lacking = np.isnan(chances).any(1)
    written = np.char.replace(np.char.mod("%.4f", chances), "nan", "").T
    columns: dict[str, Iterable[Any]] = {
        "row": range(1, len(inputs) + 1),
        "predicted": np.where(lacking, "", np.array(names)[chances.argmax(1)]),
    }
    columns |= zip(map("probability of {}".format, names), written, strict=True)
    for name, texts in carried.items():
        name = name or "row name"
        name = f"{name} (as written)" if name in columns else name
        columns[name] = (text for chunk in texts.chunks for text in chunk.to_pylist())
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    print(target)


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
