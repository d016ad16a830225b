"""The trained model of a run's folder: to predict with, and to take elsewhere."""

import dataclasses
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import serialization, traverse_util

from fedsvp_jax import models
from fedsvp_jax.core.files import AnyPath, Record, read_json, replace_file
from fedsvp_jax.core.settings import FEATURE_MODELS
from fedsvp_jax.core.structs import Model, Params
from fedsvp_jax.core.tree import cell_of, params_sha256
from fedsvp_jax.data import dataset, preprocessing
from fedsvp_jax.data.tables import schema as schemas
from fedsvp_jax.models import batches, evaluation, kept_features

from .checkpoint import Checkpointer
from .folder import identity

SCHEMA, MODEL = "schema.toml", "model.safetensors"  # of a run on a table
_METADATA = "fedsvp_jax"  # the key of what a model file says of itself
# Of a run's settings, those that a model file needs to predict, and to say what it is.
_SETTINGS = (
    "agreement",  # of a federation's sites
    "dataset",
    "model",
    "mechanism",
    "num_classes",
    "example_shape",
    "has_targets",
    "versions",
    "own_model",
)
_BATCH = 500  # examples in one call of the model


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """The global model after some rounds of a run.

    Attributes:
      model: the `(init, apply)` pair.
      params: what was trained, as `model.apply` takes it; for a Linen module
        `module.apply({"params": params, **stats}, x)`.
      stats: un-trained statistics (BatchNorm's), {} without any.
      rounds: rounds done.
      settings: what config.json says; of a model file, a part of it.
      schema: of a table: how rows become examples, and what the classes are called
        (`data.tables.schema.Schema`); or None.
      claims: the guarantees of summary.json; none before the run's end.
      scores: of the run's test rows, as summary.json beside the model has them
        (`tables.scores`); a model file alone has none, since no ε covers these rows.
    """

    model: Model
    params: Params
    stats: Params
    rounds: int
    settings: Record
    schema: Any = None
    claims: tuple[Record, ...] = ()
    scores: Record | None = None

    def outputs(self, inputs: np.ndarray) -> np.ndarray:
        """(n, ...) float32: what the model gives for each example, say its logits.

        Args:
          inputs: (n, *example_shape), examples as the data set holds them: uint8 pixels
            or float32 features. Pixels are scaled, and made larger or into features
            where the run's model needs that.

        Raises:
          ValueError: there are no examples, or of another shape than those of the run;
            they hold NaN or infinity; or they are a data frame, whose rows the model's
            schema has to encode first.
        """
        if self.schema and hasattr(inputs, "columns"):
            raise ValueError(
                "the model takes encoded rows, not a data frame: encode it by "
                "data.tables.encoding.encode (docs/library.md has the lines), or use "
                "fedsvp predict"
            )
        prepared = self._prepared(np.asarray(inputs))
        shape = tuple(self.settings["example_shape"])
        if prepared.shape[1:] != shape:
            raise ValueError(
                f"inputs must have the shape (n, {', '.join(map(str, shape))}) as the "
                f"run's examples, got {prepared.shape}"
            )
        if not len(prepared):
            raise ValueError("inputs must hold at least one example")
        dataset.check_finite(prepared, "inputs")
        apply = jax.jit(
            partial(evaluation.outputs_for, self.model, self.params, self.stats)
        )
        return np.concatenate(list(batches.in_batches(apply, prepared, _BATCH)))

    def probabilities(self, inputs: np.ndarray) -> np.ndarray:
        """(n, classes) float32: softmax of the logits, a row for each example.

        Args, Raises: as `outputs`; and a run whose data set has targets has no classes.
        """
        if self.settings.get("has_targets"):
            raise ValueError(
                "the run's data set has targets, so the model predicts no classes; "
                "use outputs"
            )
        return np.asarray(jax.nn.softmax(self.outputs(inputs)))

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """(n,) int32: the class of the largest probability of each example.

        Args, Raises: as `probabilities`.
        """
        return self.probabilities(inputs).argmax(-1).astype(np.int32)

    def save(self, path: AnyPath) -> None:
        """Writes params and stats to a file that ends in .safetensors.

        One tensor for each leaf, named by its path with "/" between
        (`params/Dense_0/kernel`); read by safetensors of any framework. Its metadata
        say the model's name, classes, schema, claims and versions, so that `load_model`
        reads it anywhere.

        Raises:
          ValueError: another ending.
          OSError: the file cannot be written; what was there is as it was.
        """
        file = Path(path)
        if file.suffix != ".safetensors":
            raise ValueError(f"a model is saved as .safetensors, got {os.fspath(file)}")
        tree = jax.device_get({"params": self.params, "stats": self.stats})
        tensors = traverse_util.flatten_dict(serialization.to_state_dict(tree), sep="/")
        settings = self.settings
        description = {
            "settings": {k: settings[k] for k in _SETTINGS if k in settings},
            "rounds": self.rounds,
            "schema": self.schema and schemas.to_toml(self.schema),
            "claims": self.claims,
        }
        from safetensors.numpy import save

        content = save(  # which takes an array's memory as it lies
            {name: np.asarray(leaf, order="C") for name, leaf in tensors.items()},
            {_METADATA: json.dumps(description)},
        )
        replace_file(file, content)

    def _prepared(self, inputs: np.ndarray) -> np.ndarray:
        """The examples in the layout that the model takes."""
        name = self.settings["model"]
        if inputs.shape[1:] == tuple(self.settings["example_shape"]):
            return inputs
        if name == "paper_cnn" and inputs.shape[1:] == (28, 28, 1):
            return preprocessing.to_rgb32(inputs)
        if name in FEATURE_MODELS and inputs.ndim == 4:
            return kept_features.computed(name, inputs)
        return inputs


def load_model(folder: AnyPath, *, model: Model | None = None) -> TrainedModel:
    """The model of a run's newest intact checkpoint: of a run that ended or stopped.

    Args:
      folder: a run's, as `run.train` or `experiments.train` wrote it; or a file of
        `TrainedModel.save`, .safetensors.
      model: as it was given to `run.train`; where none was, built by its name.

    Raises:
      ValueError: the folder holds no run or no checkpoint, all checkpoints are
        damaged, or the model is not the one that was trained.
    """
    place = Path(folder)
    if place.is_file():
        return _load_file(place, model)
    file = place / "config.json"
    try:
        settings = read_json(file)
    except FileNotFoundError as error:
        missing = file.name if place.exists() else "such file or folder"
        raise ValueError(f"{place} holds no run: there is no {missing}") from error
    if not isinstance(settings, dict) or "example_shape" not in settings:
        raise ValueError(
            f"{place} is not the folder of a run of this version: its config.json does "
            "not say which shape an example has"
        )
    if "mechanisms" in settings:
        raise ValueError(
            f"{place} is the folder of a sweep, which keeps no model of its many runs: "
            f"name the folder of a run of fedsvp train --config={file}, which makes "
            "the model of a cell from its values"
        )
    newest = Checkpointer(place / "checkpoints", identity(settings)).newest()
    if newest is None:
        raise ValueError(
            f"{place} has no checkpoint yet; go on with the same command and --resume"
        )
    content, rounds = newest
    saved = serialization.msgpack_restore(content)["server"]
    weights = _weights(model, settings, saved)
    results = _results(place, weights[1])
    return TrainedModel(*weights, rounds, settings, schema_of(place), *results)


def schema_of(folder: Path) -> schemas.Schema | None:
    """The schema of a run's table, by the run's folder; None of other data.

    Raises:
      ValueError: the schema is damaged.
    """
    table = folder / SCHEMA
    return schemas.read_schema(table) if table.is_file() else None


def _results(folder: Path, params: Params) -> tuple[tuple[Record, ...], Record | None]:
    """Claims of summary.json, and scores if they are those of these parameters."""
    try:
        summary = read_json(folder / "summary.json")
        is_scored = summary["params_sha256"] == params_sha256(params)
        scores = summary.get("test_scores") if is_scored else None
        return tuple(summary["guarantees"]), scores and dict(scores)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return (), None  # the run has not ended


def _weights(
    model: Model | None, settings: Record, saved: Record
) -> tuple[Model, Params, Params]:
    """The model, by the settings' name where none is given, and its saved numbers.

    Of the run's cells, which `saved` has as a first axis, the first is its own.
    """
    if model is None and settings.get("own_model"):
        raise ValueError(
            "a model of your own was trained: hand it to run.load_model (model=)"
        )
    model = model or models.make_model(
        settings["model"], num_classes=settings["num_classes"]
    )
    example = jax.ShapeDtypeStruct((1, *settings["example_shape"]), np.float32)
    shapes = model.shapes(example)._asdict()
    values = {name: saved.get(name, {}) for name in shapes}
    try:
        tree = cell_of(serialization.from_state_dict(shapes, values), 0)
        for expected, leaf in zip(*map(jax.tree.leaves, (shapes, tree)), strict=True):
            if expected.shape != leaf.shape:
                raise ValueError(
                    f"it holds an array of the shape {leaf.shape} where the model has "
                    f"{expected.shape}"
                )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"the checkpoint is of another model ({error})") from error
    return model, tree["params"], tree["stats"]


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays by name and the metadata of a `.safetensors` file; no code is executed.

    Raises:
      OSError: it cannot be read.
      ValueError: it is damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return file.get_tensors(), file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error


def _load_file(path: Path, model: Model | None) -> TrainedModel:
    """The model of a file that `TrainedModel.save` wrote."""
    leaves, metadata = read_tensors(path)
    try:
        description = json.loads(metadata[_METADATA])
        settings, rounds = description["settings"], int(description["rounds"])
        counts = settings["num_classes"], *settings["example_shape"]
        if not all(type(n) is int and 0 < n < 2**31 for n in counts):
            raise ValueError("classes and shapes are counts")
        text = description["schema"]
        settings["model"] = str(settings["model"])
        claims = tuple(description["claims"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"{path} is no model file of fedsvp; `fedsvp predict RUN --export=FILE` "
            "writes one"
        ) from error
    schema = None if text is None else schemas.from_toml(str(text), str(path))
    cells = {name: leaf[None] for name, leaf in leaves.items()}
    weights = _weights(model, settings, traverse_util.unflatten_dict(cells, sep="/"))
    _, scores = _results(path.parent, weights[1])
    return TrainedModel(*weights, rounds, settings, schema, claims, scores)
