"""Scores on the test rows of a table: of the final model, and without privacy."""

import jax
import numpy as np

from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.losses import ExampleLoss
from fedsvp_jax.core.settings import FEATURE_MODELS, by_class
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.tables import scores
from fedsvp_jax.federation import loading

from .session import Session
from .trained_model import TrainedModel


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
    predicted = predictions(session, cell, settings)
    return {
        "test_scores": scores.of_table(
            *predicted, data.class_names, tested.test_clients
        )
    }


def reference_scores(config: ResolvedConfig, data: Dataset) -> Record:
    """Scores of logistic regression on the training rows of all clients, which hides
    nothing.

    It is the optimum of the log loss of the rows, weighted by `class_weights`, with the
    ridge of scikit-learn: min over W and b of Σ_i w_{y_i}·loss_i(W, b) + ‖W‖²/2.
    """
    from sklearn.dummy import DummyClassifier  # which take a second to import
    from sklearn.linear_model import LogisticRegression

    tested, _ = loading.withhold_validation(config, data)
    weights = by_class("class_weights", config.class_weights, data.num_classes)
    model = LogisticRegression(
        class_weight=dict(enumerate(weights)) or None, max_iter=1000
    )
    if len(np.unique(data.train_labels)) == 1:
        model = DummyClassifier()  # which predicts that class
    model.fit(data.train_inputs.reshape(len(data.train_labels), -1), data.train_labels)
    labels = tested.test_labels
    chances = np.zeros((len(labels), data.num_classes))
    chances[:, model.classes_] = model.predict_proba(
        tested.test_inputs.reshape(len(labels), -1)
    )
    return scores.of_table(chances, labels, data.class_names, tested.test_clients)
