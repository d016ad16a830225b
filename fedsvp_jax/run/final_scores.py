"""Scores of the final model on the test rows of a table."""

import jax
import numpy as np

from fedsvp_jax.core.files import Record
from fedsvp_jax.core.losses import ExampleLoss
from fedsvp_jax.core.settings import FEATURE_MODELS
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.tables import scores
from fedsvp_jax.federation import loading
from fedsvp_jax.run.session import Session
from fedsvp_jax.run.trained_model import TrainedModel


def predictions(
    session: Session, cell: int, settings: Record
) -> tuple[np.ndarray, np.ndarray]:
    """(n, classes) a cell's probabilities for the test rows, and (n,) their classes.

    Args:
      settings: those of config.json.
    """
    program, state = session.program, session.state
    params, stats = jax.device_get(cell_of(state.weights, cell))
    test = program.data.test
    trained = TrainedModel(program.model, params, stats, session.done, dict(settings))
    return trained.probabilities(np.asarray(test.inputs)), np.asarray(test.labels)


def scores_of(
    session: Session,
    cell: int,
    settings: Record,
    data: Dataset | ClientStore,
    loss: ExampleLoss | None,
) -> Record:
    """`test_scores` of a table, or of features of images; {} of other data."""
    config = session.program.configs[cell]
    if loss is not None or not isinstance(data, Dataset):
        return {}
    if data.schema is None and config.model not in FEATURE_MODELS:
        return {}
    tested, _ = loading.withhold_validation(config, data)
    chances, labels = predictions(session, cell, settings)
    return {
        "test_scores": scores.of_table(
            chances, labels, data.class_names, tested.test_clients
        )
    }
