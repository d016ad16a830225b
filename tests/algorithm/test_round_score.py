"""The scores of a round: of the private classes and of the worst served clients."""

import dataclasses
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np

from fedsvp_jax.algorithm import round_score
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.devices import lanes
from fedsvp_jax.federation import loading
from fedsvp_jax.structs import Model, Split


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


def test_a_private_column_is_scored_on_the_test_records_that_have_it() -> None:
    inputs = np.eye(4, dtype=np.float32)
    labels = np.array([0, 1, 1, 0], np.int32)
    women = np.array([0, 0, 1, 1], np.int32)
    names = ("f", "m")
    dataset = Dataset(
        "people",
        *(inputs, labels) * 2,
        num_classes=2,
        columns={"sex": Column(women, names)},
        test_columns={"sex": Column(women, names)},
    )
    config = resolve(
        ExperimentConfig(dataset="npz", attributes="column:sex", num_attributes=2)
    )
    ids = loading.test_attributes(config, dataset)
    np.testing.assert_array_equal(ids, women)
    test = preprocessing.device_examples(inputs, labels, ids)
    untold = dataclasses.replace(dataset, test_columns={})
    assert loading.test_attributes(config, untold) is None
    everyone = Split(
        *map(jnp.asarray, ([[0, 1], [2, 3]], [2, 2], [[0], [0]], [0, 0]))
    )  # the women are client 0's, the men client 1's

    def scores(known: bool) -> round_score.Scores:
        plan = SimpleNamespace(
            eval_every=1,
            num_rounds=1,
            test_batch_size=4,
            differ_by_class=True,
            num_tested_attributes=2 if known else 0,
            estimation=SimpleNamespace(private_attribute=0),
        )
        return round_score.of_round(
            Model(None, lambda params, stats, x, *, train, key: (x @ params, stats)),
            plan,
            SimpleNamespace(split=everyone),
            jnp.asarray([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
            {},
            preprocessing.device_examples(inputs, labels, women),
            test,
            jnp.int32(0),
            lanes.Devices(1, jnp.int32(0)),
        )

    found = scores(known=True)  # record 1 alone is taken for the other class
    assert (found.accuracy, found.private, found.worst_tenth) == (0.75, 0.5, 0.5)
    assert np.isnan(scores(known=False).private)
