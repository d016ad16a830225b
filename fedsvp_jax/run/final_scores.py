"""Scores of the final model on the test rows of a table."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core.losses import ExampleLoss
from fedsvp_jax.core.settings import FEATURE_MODELS
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.tables import scores
from fedsvp_jax.federation import loading
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
    params, stats = jax.device_get(cell_of((state.params, state.stats), cell))
    test = program.data.test
    trained = TrainedModel(program.model, params, stats, session.done, dict(settings))
    chances = trained.probabilities(np.asarray(test.inputs))
    return Predictions(chances, np.asarray(test.labels))


def scores_of(
    config: ExperimentConfig,
    data: Dataset | ClientStore,
    loss: ExampleLoss | None,
    predicted: Callable[[], Predictions],
) -> dict[str, Any]:
    """`test_scores` of a table, or of features of images; {} of other data.

    `predicted` is called where there are any.
    """
    if loss is not None or not isinstance(data, Dataset):
        return {}
    if data.schema is None and config.model not in FEATURE_MODELS:
        return {}
    tested, _ = loading.withhold_validation(config, data)
    return {
        "test_scores": scores.of_table(
            *predicted(), data.class_names, tested.test_clients
        )
    }
