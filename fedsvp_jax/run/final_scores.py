"""Scores of the final model on the test rows of a table."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedsvp_jax.core.losses import ExampleLoss
from fedsvp_jax.core.settings import FEATURE_MODELS
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.tables import scores
from fedsvp_jax.devices import processes
from fedsvp_jax.run.session import Session
from fedsvp_jax.run.trained_model import TrainedModel


class Predictions(NamedTuple):
    """The final model's answers for the test rows."""

    chances: np.ndarray  # (n, classes) probabilities
    labels: np.ndarray  # (n,) the classes of the rows


def predictions(
    session: Session, cell: int, settings: Mapping[str, Any]
) -> Predictions:
    """Of one cell; `settings` are those of config.json."""
    program, state = session.program, session.state
    params, stats = processes.to_host(cell_of((state.params, state.stats), cell))
    test = program.data.test
    trained = TrainedModel(program.model, params, stats, session.done, dict(settings))
    chances = trained.probabilities(np.asarray(test.inputs))
    return Predictions(chances, np.asarray(processes.to_host(test.labels)))


def has_scores(
    data: Dataset | ClientStore, loss: ExampleLoss | None, model: str
) -> bool:
    """Whether the data are a table or features of images, with classes."""
    features = model in FEATURE_MODELS
    is_table = isinstance(data, Dataset) and (data.schema is not None or features)
    return is_table and loss is None


def of_predictions(
    data: Dataset | ClientStore, predicted: Predictions
) -> dict[str, Any]:
    """As `tables.scores.of_table`."""
    return scores.of_table(*predicted, data.class_names)
