"""Scores of a table's test rows, against scikit-learn's and by hand."""

import dataclasses

import numpy as np
import pytest
from sklearn import metrics

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data.tables import scores, table
from fedsvp_jax.federation import loading


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_scikit_learn(classes: int) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=200)
    chances = (
        rng.dirichlet(np.ones(classes), 200).round(2) + 1e-3 * np.eye(classes)[labels]
    )
    chances /= chances.sum(1, keepdims=True)
    found = scores.of_table(chances, labels, None)
    predicted = chances.argmax(1)
    told = chances[:, 1] if classes == 2 else chances
    area = metrics.roc_auc_score(labels, told, multi_class="ovr")
    assert found["auc"] == pytest.approx(area)
    balanced = metrics.balanced_accuracy_score(labels, predicted)
    assert found["balanced_accuracy"] == pytest.approx(balanced)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(labels, chances))
    assert found["accuracy"] == metrics.accuracy_score(labels, predicted)
    assert sum(found["counts"].values()) == 200


def test_a_guess_is_called_one() -> None:
    labels = np.array([0] * 80 + [1] * 20)
    guess = np.tile([0.8, 0.2], (100, 1))
    found = scores.of_table(guess, labels, ("no", "yes"))
    assert found["guessing"] == found["accuracy"] == 0.8 and found["auc"] == 0.5
    assert not found["useful"] and found["counts"] == {"no": 80, "yes": 20}
    ranks = np.stack([0.9 - 0.3 * labels, 0.1 + 0.3 * labels], 1)
    found = scores.of_table(ranks, labels, None)
    assert found["useful"] and not found["better_than_guessing"]
    assert scores.auc(np.ones(3), np.ones(3, bool)) is None


def test_each_test_row_has_its_client_also_after_the_validation() -> None:
    """A client with no row for training is none; x names the client."""
    clients = ["Bern", "Basel", "Bern", "Chur", "Basel", "Bern"]
    columns = {
        "x": [2.0, 1.0, 2.0, 3.0, 1.0, 2.0],
        "client": clients,
        "y": ["a", "b", "a", "b", "b", "a"],
        "split": ["train", "train", "test", "test", "test", "test"],
    }
    data = table.from_table(columns, label="y", client="client")
    assert data.test_clients == ["Bern", "", "Basel", "Bern"]
    config = ExperimentConfig(validation_examples=2)
    rest, _ = loading.withhold_validation(config, data)
    names = {data.test_inputs[n, 0]: name for n, name in enumerate(data.test_clients)}
    assert rest.test_clients == [names[x] for x in rest.test_inputs[:, 0]]
    without = dataclasses.replace(data, test_writers=None)
    assert without.test_clients is None and without.fingerprint == data.fingerprint
