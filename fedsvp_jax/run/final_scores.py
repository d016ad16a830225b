"""Scores on the test rows of a table: of the final model, and without privacy."""

from typing import Any

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
    has_features = data.schema is not None or config.model in FEATURE_MODELS
    if loss is not None or not isinstance(data, Dataset) or not has_features:
        return {}
    tested, _ = loading.withhold_validation(config, data)
    predicted = predictions(session, cell, settings)
    return {
        "test_scores": scores.of_table(
            *predicted, data.class_names, tested.test_clients
        )
    }


def reference_scores(
    config: ResolvedConfig, data: Dataset, trained: TrainedModel | None = None
) -> Record:
    """Scores of logistic regression on the training rows of all clients, which hides
    nothing.

    It is the optimum of the log loss of the rows, weighted by `class_weights`, with the
    ridge of scikit-learn: min over W and b of Σ_i w_{y_i}·loss_i(W, b) + ‖W‖²/2.

    Args:
      trained: the model of all clients, which is compared with each client's own.

    Returns:
      those of `scores.of_table`; and, where test rows belong to several clients that
      train, `alone`: `scores.compared` on these rows, of `trained`, and of such a
      regression on the training rows of each row's client.
    """
    tested, _ = loading.withhold_validation(config, data)
    labels, names = tested.test_labels, data.class_names
    pooled = scores.of_table(
        _probabilities(config, tested, ..., ...), labels, names, tested.test_clients
    )
    owners, writers = tested.test_writers, data.train_writers
    is_several = config.partition == "by_writer" and config.num_clients > 1
    if trained is None or owners is None or writers is None or not is_several:
        return pooled
    chances = np.full((len(labels), data.num_classes), np.nan)
    for part in loading.client_parts(config, data):
        rows = owners == writers[part[0]]
        if rows.any():
            chances[rows] = _probabilities(config, tested, part, rows)
    rows = np.isfinite(chances[:, 0])
    both = np.stack([trained.probabilities(tested.test_inputs), chances])
    alone = scores.compared(both[:, rows], labels[rows], owners[rows])
    return pooled | ({"alone": alone} if alone else {})


def _probabilities(
    config: ResolvedConfig, data: Dataset, rows: Any, tested: Any
) -> np.ndarray:
    """(m, classes) for test rows, of the regression on training rows, by positions."""
    from sklearn.dummy import DummyClassifier  # which take a second to import
    from sklearn.linear_model import LogisticRegression

    weights = by_class("class_weights", config.class_weights, data.num_classes)
    model = LogisticRegression(
        class_weight=dict(enumerate(weights)) or None, max_iter=1000
    )
    labels, inputs = data.train_labels[rows], data.test_inputs[tested]
    if len(np.unique(labels)) == 1:
        model = DummyClassifier()  # which predicts that class
    model.fit(data.train_inputs[rows].reshape(len(labels), -1), labels)
    chances = np.zeros((len(inputs), data.num_classes))
    chances[:, model.classes_] = model.predict_proba(inputs.reshape(len(inputs), -1))
    return chances
