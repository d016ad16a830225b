"""The scores of a round: of the private classes and of the worst served clients."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsvp_jax.algorithm import evaluation, round_score
from fedsvp_jax.algorithm.state import Data
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.federation import loading
from fedsvp_jax.structs import Examples, Split


def test_a_tenth_of_the_clients_rounded_up_is_the_worst_tenth() -> None:
    by_class = jnp.asarray([0.5, 0.9, 0.1])
    held = jnp.asarray([[4.0, 0.0, 0.0]] * 10 + [[0.0, 3.0, 1.0]])  # two are a tenth
    clients = [0.5] * 10 + [0.75 * 0.9 + 0.25 * 0.1]
    worst = round_score.worst_tenth(by_class, held)
    np.testing.assert_allclose(worst, np.sort(clients)[:2].mean(), rtol=1e-6)


def test_a_class_without_test_examples_counts_for_nobody() -> None:
    by_class = jnp.asarray([0.5, jnp.nan, 1.0])
    held = jnp.asarray([[1.0, 5.0, 3.0], [0.0, 2.0, 0.0]])
    found = round_score.mean_over_groups(by_class, held)
    np.testing.assert_allclose(found, [0.875, np.nan])


def scored(
    monkeypatch: pytest.MonkeyPatch, round_num: int, **changes: Any
) -> round_score.Scores:
    """The scores after a round of a model of three classes, 0 and 2 of them private."""
    validation = changes.pop("validation", None)
    told = {
        "eval_every": 3,
        "num_rounds": 5,
        "test_batch_size": 7,
        "num_tested_attributes": 2,
        "estimation": SimpleNamespace(private_attribute=0),
        "differ_by_class": True,
        "known_trips": False,
    }
    plan: Any = SimpleNamespace(**(told | changes))
    tested, labels = jnp.asarray([0, 0, 0, 1, 2, 1]), jnp.asarray([0, 0, 1, 2, 2, 1])
    test = Examples(jnp.zeros((6, 1)), tested, tested % 2)
    examples = Examples(jnp.zeros((6, 1)), labels, labels % 2)
    by_class = [0.5, 0.9, 0.1]
    by_group = [0.5, np.nan, np.nan, 0.9, 0.1, np.nan]  # class · 2 + attribute
    split = Split(
        train=jnp.asarray([[0, 1, 2], [3, 4, 0]]),
        num_train=jnp.asarray([3, 2]),  # the last row of client 1 is padding
        validation=None,
        num_validation=None,
    )

    def evaluate(
        *given: Any,
        batch_size: int,
        devices: Any,
        num_attributes: int = 1,
        known_trips: bool = False,
    ) -> evaluation.Score:
        assert devices == "devices" and not known_trips
        if given[3] is validation:
            assert batch_size == 2 and num_attributes == 1
            return evaluation.Score(jnp.float32(0.6), jnp.float32(2.5), jnp.zeros(3))
        assert given == ("model", "params", "stats", test) and batch_size == 7
        return evaluation.Score(
            accuracy=jnp.float32(0.7),
            loss=jnp.float32(1.5),
            group_accuracy=jnp.asarray(by_group if num_attributes == 2 else by_class),
        )

    monkeypatch.setattr(evaluation, "evaluate", evaluate)
    given: Any = ("model", plan, SimpleNamespace(split=split), ("params", "stats"))
    given += (Data(examples, test, validation),)
    return round_score.of_round(*given, round_num, "devices")


def test_of_round_scores_every_few_rounds_and_the_last(monkeypatch: pytest.MonkeyPatch):
    for round_num in range(5):
        found = scored(monkeypatch, jnp.int32(round_num))
        if round_num not in (2, 4):
            assert np.all(np.isnan(jax.tree.leaves(found)))
            continue
        # Private: three test examples of class 0 and one of class 2. The worst client
        # holds class 2 alone.
        private = (3 * 0.5 + 0.1) / 4
        expected = [0.7, 1.5, private, 0.1]
        np.testing.assert_allclose(found[:4], expected, rtol=1e-6)
        assert found[4:] == (None, None)


def test_the_validation_set_is_scored_with_the_test_set(
    monkeypatch: pytest.MonkeyPatch,
):
    two = Examples(jnp.zeros((2, 1)), jnp.asarray([0, 2]), jnp.zeros(2))
    found = scored(monkeypatch, jnp.int32(2), validation=two)
    np.testing.assert_allclose(found[4:], [0.6, 2.5])
    assert found.accuracy == jnp.float32(0.7)
    unseen = scored(monkeypatch, jnp.int32(3), validation=two)
    assert np.all(np.isnan(jax.tree.leaves(unseen))) and len(unseen) == 6


def test_a_private_column_is_known_of_test_records_where_the_data_set_tells() -> None:
    inputs, labels = np.eye(4, dtype=np.float32), np.array([0, 1, 1, 0], np.int32)
    sex = {"sex": Column(np.array([0, 0, 1, 1], np.int32), ("f", "m"))}
    both = (inputs, labels, inputs, labels)
    told = Dataset("people", *both, num_classes=2, columns=sex, test_columns=sex)
    config = resolve(ExperimentConfig(dataset="npz", attributes="column:sex"))
    np.testing.assert_array_equal(loading.test_attributes(config, told), [0, 0, 1, 1])
    untold = dataclasses.replace(told, test_columns={})
    assert loading.test_attributes(config, untold) is None
    by_class = dataclasses.replace(config, attributes="class", private_attribute=1)
    np.testing.assert_array_equal(
        loading.test_attributes(by_class, untold), [1, 0, 0, 1]
    )
