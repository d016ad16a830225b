"""The reference of a run: logistic regression on all training rows, without privacy."""

import dataclasses

import numpy as np
import pytest

from fedsvp_jax import run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.data.tables import scores


def hospitals(rows: int = 1196, tested: int = 4000) -> Dataset:
    rng = np.random.default_rng(7)
    inputs = rng.uniform(-1, 1, (rows + tested, 8)).astype(np.float32)
    inputs[:, 4:] = np.sign(inputs[:, 4:])
    logits = inputs @ np.array([0.8, -0.5, 0.3, 0, 0.2, 0, -0.2, 0.1]) - 0.7
    labels = (rng.random(len(inputs)) < 1 / (1 + np.exp(-logits))).astype(np.int32)
    return Dataset(
        name="hospitals",
        train_inputs=inputs[tested:],
        train_labels=labels[tested:],
        test_inputs=inputs[:tested],
        test_labels=labels[:tested],
        num_classes=2,
    )


def by_newton(data: Dataset, weights: tuple[float, float]) -> np.ndarray:
    """(n, 2) by Newton's steps on Σ w·loss + |coefficients|²/2, in float64."""
    rows = np.insert(np.asarray(data.train_inputs, float), 0, 1, axis=1)
    beta, ridge = np.zeros(rows.shape[1]), np.eye(rows.shape[1])
    ridge[0, 0] = 0
    weight = np.array(weights)[data.train_labels]
    for _ in range(30):
        chance = 1 / (1 + np.exp(-rows @ beta))
        slope = rows.T @ (weight * (chance - data.train_labels)) + ridge @ beta
        bent = rows.T @ (rows * (weight * chance * (1 - chance))[:, None]) + ridge
        beta -= np.linalg.solve(bent, slope)
    tested = np.insert(np.asarray(data.test_inputs, float), 0, 1, axis=1)
    chance = 1 / (1 + np.exp(-tested @ beta))
    return np.stack([1 - chance, chance], 1)


@pytest.mark.hole
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 3.0)])
def test_the_reference_is_the_optimum_on_the_pooled_rows(
    weights: tuple[float, float],
) -> None:
    """It was FedAvg of 30 untuned epochs, which the private model surpassed."""
    data = hospitals()
    text = None if weights == (1, 1) else "1,3"
    config = ExperimentConfig(dataset="csv", class_weights=text)
    found = run.reference_scores(config, data)
    expected = scores.of_table(by_newton(data, weights), data.test_labels, None)
    for name in ("auc", "log_loss"):
        assert found[name] == pytest.approx(expected[name], abs=1e-4)
    assert found == run.reference_scores(config, data)


def by_client(tested: np.ndarray) -> Dataset:
    """The rows of three hospitals, one of one class; and whose test rows are."""
    data = hospitals(rows=300, tested=len(tested))
    writers = np.repeat(np.arange(3, dtype=np.int32), 100)
    labels = np.where(writers == 1, 1, data.train_labels).astype(np.int32)
    return dataclasses.replace(
        data,
        train_labels=labels,
        train_writers=writers,
        writer_names=("Bern", "Genf", "Zug"),
        test_writers=tested.astype(np.int32),
    )


class Federated:
    """A model that ranks by the first column."""

    def probabilities(self, inputs: np.ndarray) -> np.ndarray:
        return np.stack([-inputs[:, 0], inputs[:, 0]], 1)


def test_each_client_alone_predicts_its_own_test_rows() -> None:
    """Nothing said whether a hospital needs the others: medpar's own have AUC .567."""
    data = by_client(np.arange(400) % 4 - 1)
    settings = {"dataset": "csv", "batch_size": 1, "partition": "by_writer"}
    config = resolve(ExperimentConfig(**settings, num_clients=3), dataset=data)
    assert "alone" not in run.reference_scores(config, data)
    found = run.reference_scores(config, data, Federated())["alone"]
    chances = np.tile([0.0, 1.0], (400, 1))  # of Genf, which has seen class 1 alone
    for client in (0, 2):
        rows, mine = data.train_writers == client, data.test_writers == client
        part = dataclasses.replace(
            data,
            train_inputs=data.train_inputs[rows],
            train_labels=data.train_labels[rows],
            train_writers=None,
            writer_names=None,
            test_writers=None,
        )
        chances[mine] = by_newton(part, (1, 1))[mine]
    known = data.test_writers >= 0
    both = np.stack([Federated().probabilities(data.test_inputs), chances])
    expected = scores.compared(
        both[:, known], data.test_labels[known], data.test_writers[known]
    )
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=2e-3), name


def test_one_client_and_rows_of_nobody_have_no_such_scores() -> None:
    data = by_client(np.full(40, -1))
    settings = ExperimentConfig(dataset="csv", batch_size=1)
    several = resolve(dataclasses.replace(settings, num_clients=3), dataset=data)
    assert "alone" not in run.reference_scores(several, data, Federated())
    data = by_client(np.zeros(40))
    dealt = dataclasses.replace(settings, num_clients=2, partition="iid")
    for each in (dealt, dataclasses.replace(settings, num_clients=1)):
        config = resolve(each, dataset=data)
        assert "alone" not in run.reference_scores(config, data, Federated())


def test_rows_of_one_class_have_a_reference_too() -> None:
    data = hospitals(tested=100)
    only = np.zeros_like(data.train_labels)
    found = run.reference_scores(
        ExperimentConfig(dataset="csv"), dataclasses.replace(data, train_labels=only)
    )
    assert found["auc"] == 0.5
