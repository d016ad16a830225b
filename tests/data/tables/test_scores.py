"""Scores of a table's test rows, against scikit-learn's and by hand."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
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
    assert found["verdict"].startswith("not") and found["counts"] == {
        "no": 80,
        "yes": 20,
    }
    ranks = np.stack([0.9 - 0.3 * labels, 0.1 + 0.3 * labels], 1)
    found = scores.of_table(ranks, labels, None)
    assert found["verdict"] == scores.BETTER
    assert found["accuracy"] == found["guessing"]
    assert scores.auc(np.ones(3), np.ones(3, bool)) is None


@pytest.mark.hole
def test_a_model_is_judged_by_the_interval_of_its_auc() -> None:
    """AUC .82 on 310 rows was "not significantly better than guessing"."""
    rng = np.random.default_rng(5)
    labels = (np.arange(310) < 62).astype(int)
    chance = 1 / (1 + np.exp(1.9 - 1.3 * labels - rng.normal(size=310)))
    found = scores.of_table(np.stack([1 - chance, chance], 1), labels, None)
    assert abs(found["accuracy"] - found["guessing"]) < 0.03
    assert found["verdict"] == scores.BETTER
    low, high = found["auc_interval"]
    assert 0.7 < low < found["auc"] < high < 0.9
    lucky = np.stack([1 - labels[::-1] * 0.9, labels[::-1] * 0.9], 1)[60:64]
    found = scores.of_table(lucky, np.array([0, 0, 0, 1]), None)
    assert found["verdict"] == "not shown to be better than guessing"


@pytest.mark.hole
def test_probabilities_that_are_worse_than_the_shares_are_no_better_than_guessing():
    """A model that ranks and says .05 or .999 to everyone was called useful. The log
    loss of 80 and 20 rows is -(.8 ln .8 + .2 ln .2) = .5004 by their shares."""
    labels, rng = np.array([0] * 80 + [1] * 20), np.random.default_rng(2)
    rank = labels + rng.normal(size=100)
    for low, high, words in (
        (0.02, 0.6, "better than guessing"),
        (0.5, 0.999, "ranks better than guessing, its probabilities are worse"),
    ):
        chance = low + (high - low) / (1 + np.exp(-2 * (rank - 1)))
        found = scores.of_table(np.stack([1 - chance, chance], 1), labels, None)
        assert found["guessing_log_loss"] == pytest.approx(0.50040, abs=1e-5)
        assert found["verdict"] == words, found["log_loss"]


@pytest.mark.hole
@pytest.mark.parametrize(("ones", "others"), [(9, 40), (30, 30), (109, 190)])
def test_the_interval_of_an_auc_is_above_guessing_as_mann_and_whitney_say(
    ones: int, others: int
) -> None:
    """Against scipy's test; and it misses as often as it says, of normal scores."""
    for area in np.linspace(0.5, 0.9, 81):
        test = stats.norm.sf(
            (area - 0.5) / np.sqrt((ones + others + 1) / (12 * ones * others))
        )
        if abs(test - 0.025) > 0.005:
            low = scores.auc_interval(float(area), ones, others)[0]
            assert (low > 0.5) == (test < 0.025)
    rng, true = np.random.default_rng(0), stats.norm.cdf(1 / np.sqrt(2))
    missed = 0
    for _ in range(400):
        drawn = np.concatenate([rng.normal(1, 1, ones), rng.normal(0, 1, others)])
        area = scores.auc(drawn, np.arange(ones + others) < ones)
        assert area is not None
        low, high = scores.auc_interval(area, ones, others)
        missed += not low <= true <= high
    assert missed < 40


def test_each_test_row_has_its_client_also_after_the_validation() -> None:
    """A client with no row for training is none; x names the client."""
    clients = ["Bern", "Basel", "Bern", "Chur", "Basel", "Bern"]
    columns = {
        "x": [2.0, 1.0, 2.0, 3.0, 1.0, 2.0],
        "client": clients,
        "y": ["a", "b", "a", "b", "b", "a"],
        "split": ["train", "train", "test", "test", "test", "test"],
    }
    with pytest.warns(UserWarning, match="1 of 3 clients train nothing.*: Chur$"):
        data = table.from_table(columns, label="y", client="client")
    assert data.test_clients == ["Bern", "", "Basel", "Bern"]
    config = ExperimentConfig(validation_examples=2)
    rest, _ = loading.withhold_validation(config, data)
    names = {data.test_inputs[n, 0]: name for n, name in enumerate(data.test_clients)}
    assert rest.test_clients == [names[x] for x in rest.test_inputs[:, 0]]
    without = dataclasses.replace(data, test_writers=None)
    assert without.test_clients is None and without.fingerprint == data.fingerprint


def of_hospitals(hospitals: int, rows: int) -> tuple[np.ndarray, ...]:
    """Two models' probabilities, classes and hospitals of made-up test rows."""
    rng = np.random.default_rng(hospitals)
    clients = np.repeat(np.arange(hospitals), rng.integers(2, rows, hospitals))
    truth = rng.normal(size=len(clients))
    labels = (truth + rng.normal(size=len(clients)) > 0.7).astype(int)
    ranks = [truth + noise * rng.normal(size=len(clients)) for noise in (1, 1.5)]
    ranks[1] += 5 * clients  # own models' intercepts, which a pooled AUC would rank by
    ranks[1] = ranks[1].round(1)  # ties
    return np.array([np.stack([-r, r], 1) for r in ranks]), labels, clients


@pytest.mark.parametrize(("hospitals", "rows"), [(40, 12), (1, 200)])
def test_two_models_are_compared_on_pairs_of_one_hospital(
    hospitals: int, rows: int
) -> None:
    """Two intervals that overlap left open which is better, on the same rows."""
    chances, labels, clients = of_hospitals(hospitals, rows)
    found = scores.compared(chances, labels, clients)
    ranks, ones = chances[..., 1], labels == 1
    pairs = clients[ones][:, None] == clients[~ones]
    apart = np.sign(ranks[:, ones][:, :, None] - ranks[:, ~ones][:, None])
    won = (1 + apart) / 2 * pairs
    areas = won.sum((1, 2)) / pairs.sum()
    assert found["pairs"] == pairs.sum()
    assert found["auc"] == pytest.approx(areas)
    assert found["difference"] == pytest.approx(areas[0] - areas[1])
    gain = won[0] - won[1]
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(len(labels), [1 / len(labels)] * len(labels), size=2000)
    weighted = np.einsum("bi,ij,bj->b", drawn[:, ones], gain, drawn[:, ~ones])
    weighted /= np.einsum("bi,ij,bj->b", drawn[:, ones], pairs, drawn[:, ~ones])
    half = (found["interval"][1] - found["interval"][0]) / 2
    assert half == pytest.approx(1.96 * weighted.std(), rel=0.15)
    assert np.mean(found["interval"]) == pytest.approx(found["difference"])


def test_too_few_rows_are_not_compared() -> None:
    chances, labels, clients = of_hospitals(40, 12)
    few = np.cumsum(labels) < 10
    assert scores.compared(chances[:, few], labels[few], clients[few]) is None
    alone = np.arange(len(labels))  # no hospital has a pair
    assert scores.compared(chances, labels, alone) is None


def test_classes_are_compared_each_with_the_rest() -> None:
    rng = np.random.default_rng(0)
    labels, clients = rng.integers(0, 3, 300), rng.integers(0, 4, 300)
    right = np.eye(3)[labels]
    found = scores.compared(np.stack([right, np.ones((300, 3))]), labels, clients)
    assert found["auc"] == [1.0, 0.5] and found["interval"][0] > 0.49
