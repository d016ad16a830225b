"""Predicts with the model of a run's folder, and takes the model elsewhere.

  fedsvp predict runs/a
  fedsvp predict runs/a new.npy --to=predicted.csv
  fedsvp predict runs/a/model.safetensors new.csv --to=predicted.csv
  fedsvp predict runs/a --export=model.safetensors

MODEL is the --output_dir of `fedsvp train`, or the model file that a run on a table
leaves there and that --export writes. Inputs are an .npy file of examples, (n, *example
shape), as the data set holds them; or, of a run on a table, a file with the same
columns of features. Of a folder the model is that of the newest
checkpoint, so a run that was stopped has one too. Without inputs the test examples of
the run's own data set are predicted and the accuracy is printed. The file of
predictions has one line per example: its row in the file of inputs, from 1 as in
messages; its label where it is known; the predicted class; the probability of every
class; and, of a table, every column that is no feature, such as an id, as the table has
it. Classes have their names where they are known. The model of a table carries its
schema, which encodes the rows of another CSV file; a category that the training did not
have is `*` where the schema has it, and numbers beyond its bounds are clamped and
counted. The table of the training is not needed. A model that was no better than a
guess on its run's test rows is predicted with, and a warning says so.

Exit status: 0 done; 2 a folder or file is missing or damaged (one line says why).
"""

import csv
import dataclasses
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data.dataset import ClientStore, Dataset

from . import command

_TO = flags.DEFINE_string(
    "to", None, "File for the predictions. Default: predictions.csv in the folder."
)
_NUMBER = re.compile(r"[+-][0-9.]+([eE][+-]?[0-9]+)?")
_EXPORT = flags.DEFINE_string(
    "export",
    None,
    "Write the model to this file instead of predicting: .safetensors (for any "
    "framework) or .msgpack (flax.serialization).",
)


def _own_data(
    settings: dict[str, object],
) -> tuple[ExperimentConfig, Dataset | ClientStore]:
    """The run's settings and its data set, if it is still the same one."""
    from fedsvp_jax.federation import federated_data

    names = {field.name for field in dataclasses.fields(ExperimentConfig)}
    values = {name: value for name, value in settings.items() if name in names}
    config = ExperimentConfig(**values)  # type: ignore[arg-type]
    data = federated_data.load_data(config)
    if data.fingerprint != settings["data_fingerprint"]:
        raise ValueError(
            f"the data set {settings['dataset']} is another one than the run's; name "
            "an .npy file of examples"
        )
    return config, data


def _examples(path: Path) -> np.ndarray:
    """The array of an .npy file."""
    from fedsvp_jax.data.tables import files

    try:
        return np.load(path, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy parses the header as Python
        why = files.reason(error)
        raise ValueError(f"{path} is not an .npy file of numbers: {why}") from error


def _quoted(name: str) -> str:
    """A name that no spreadsheet takes for a formula; numbers stay as they are."""
    formula = name.startswith(("=", "+", "-", "@")) and _NUMBER.fullmatch(name) is None
    return f"'{name}" if formula else name


def main(arguments: Sequence[str]) -> None:
    """Predicts, or exports the model."""
    if len(arguments) not in (2, 3):
        raise ValueError("name one folder of a run, or a model file, and the inputs")
    from fedsvp_jax import run
    from fedsvp_jax.data.tables import table
    from fedsvp_jax.federation import loading
    from fedsvp_jax.report import headline

    place = Path(arguments[1])
    trained = run.load_model(place)
    if _EXPORT.value:
        trained.save(_EXPORT.value)
        print(f"model after {trained.rounds} rounds: {_EXPORT.value}")
        return
    if trained.scores is not None and not trained.scores["useful"]:
        verdict = headline.quality({"test_scores": trained.scores})
        warnings.warn(f"the model is useless: {verdict}", stacklevel=1)
    labels, numbers, loaded = None, None, None
    names = trained.schema.classes if trained.schema is not None else None
    source = arguments[2] if len(arguments) == 3 else ""
    of_table = trained.schema is not None and not source.endswith(".npy")
    if source and (of_table or source.endswith(".csv")):
        if trained.schema is None:
            raise ValueError(
                "a CSV file is predicted by the model of a run on --dataset=csv; name "
                f"an .npy file of examples of dataset {trained.settings['dataset']}"
            )
        loaded = table.load_rows(Path(source), trained.schema)
        inputs = loaded.inputs
    elif source:
        inputs = _examples(Path(source))
    elif place.is_file():
        raise ValueError("name the inputs too: a model file has no data set")
    else:
        config, data = _own_data(trained.settings)
        names = data.class_names if isinstance(data, Dataset) else None
        data, _ = loading.withhold_validation(config, data)
        inputs, labels = np.asarray(data.test_inputs), np.asarray(data.test_labels)
        numbers = getattr(data, "test_rows", None)
        if config.dataset == "csv" and trained.schema is not None:
            path = config.test_path or Path(str(config.data_dir)).expanduser()
            declared = config.declared()  # without one, the training guessed
            encoding = declared and declared.encoding
            schema = dataclasses.replace(trained.schema, encoding=encoding)
            loaded = table.load_rows(path, schema, numbers)
    chances = trained.probabilities(inputs)
    predicted = chances.argmax(-1)
    called = [
        str(c) if names is None else _quoted(names[c]) for c in range(chances.shape[1])
    ]
    folder = place.parent if place.is_file() else place
    target = Path(_TO.value) if _TO.value else folder / "predictions.csv"
    columns: dict[str, Sequence[Any]] = {
        "row": range(1, len(inputs) + 1) if numbers is None else numbers
    }
    if labels is not None:
        columns["label"] = [called[code] for code in labels]
    columns["predicted"] = [called[code] for code in predicted]
    for name, of_class in zip(called, chances.T, strict=True):
        columns[f"probability of {name}"] = [f"{chance:.4f}" for chance in of_class]
    for name, texts in ({} if loaded is None else loaded.carried).items():
        if labels is None or name != trained.schema.label:
            columns[f"{name} (as written)" if name in columns else name] = texts
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    if loaded is not None and loaded.clamped:
        clamped = ", ".join(f"{name} {n}" for name, n in loaded.clamped.items())
        total = sum(loaded.clamped.values())
        print(f"clamped to the schema's bounds: {total} numbers ({clamped})")
    if labels is not None:
        accuracy = np.mean(predicted == labels)
        print(f"accuracy after {trained.rounds} rounds: {accuracy:.4f}")
        if sentence := headline.unprotected(trained.settings):
            print(sentence)
    print(target)


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
