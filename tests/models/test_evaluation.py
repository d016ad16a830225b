"""Accuracy and loss: a plain mean over the examples, whatever the batches."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layer_checks import on_devices

from fedsvp_jax.core.structs import Examples, Split, Weights
from fedsvp_jax.models import evaluation, make_model
from fedsvp_jax.models.evaluation import Score
from fedsvp_jax.round import round_score
from fedsvp_jax.round.state import Data

NUM_EXAMPLES = 23
WEIGHTS = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
MODEL = make_model("logistic", num_classes=3)
PARAMS = {"kernel": jnp.asarray(WEIGHTS.T), "bias": jnp.zeros(3)}


def examples() -> Examples:
    rng = np.random.default_rng(0)
    return Examples(
        inputs=jnp.asarray(rng.normal(size=(NUM_EXAMPLES, 4)).astype(np.float32)),
        labels=jnp.asarray(rng.integers(0, 3, NUM_EXAMPLES).astype(np.int32)),
        attributes=jnp.arange(NUM_EXAMPLES, dtype=jnp.int32) % 2,
    )


def by_hand() -> tuple[np.ndarray, np.ndarray]:
    """Per example: right or not, and -log of the softmax at the label."""
    held = examples()
    logits = np.asarray(held.inputs, np.float64) @ WEIGHTS.astype(np.float64)
    labels = np.asarray(held.labels)
    chosen = logits[np.arange(NUM_EXAMPLES), labels]
    return logits.argmax(1) == labels, np.log(np.exp(logits).sum(1)) - chosen


def score(batch_size: int, num_devices: int = 1, num_attributes: int = 1) -> Score:
    return on_devices(
        lambda devices: evaluation.evaluate(
            *(MODEL, Weights(PARAMS, {}), examples()),
            batch_size=batch_size,
            devices=devices,
            known_trips=False,
            num_attributes=num_attributes,
        ),
        num_devices,
    )


@pytest.mark.parametrize(("batch_size", "num_attributes"), [(1, 1), (5, 2), (40, 1)])
def test_scores_are_plain_means_at_any_batch_size(
    batch_size: int, num_attributes: int
) -> None:
    """Of all examples, and of each class, or class and attribute."""
    (right, losses), held = by_hand(), examples()
    group = np.asarray(held.labels) * num_attributes
    if num_attributes > 1:
        group = group + np.asarray(held.attributes)
    by_group = [right[group == g].mean() for g in range(3 * num_attributes)]
    found = score(batch_size, num_attributes=num_attributes)
    np.testing.assert_allclose(found.accuracy, right.mean(), rtol=1e-6)
    np.testing.assert_allclose(found.loss, losses.mean(), rtol=1e-5)
    np.testing.assert_allclose(found.group_accuracy, by_group, rtol=1e-6)


@pytest.mark.bits
def test_the_score_has_the_same_bits_on_any_number_of_devices() -> None:
    for number in (2, 3, 4):
        chex.assert_trees_all_equal(score(5, number), score(5))


@pytest.mark.parametrize(("count", "batch_size"), [(17, 1), (17, 5), (3, 23), (0, 5)])
def test_what_a_model_is_worth_on_validation_examples(
    count: int, batch_size: int
) -> None:
    """Accuracy, or the nats by which the loss is below ln 3; 0 without examples."""
    right, losses = by_hand()
    order = np.random.default_rng(2).permutation(NUM_EXAMPLES).astype(np.int32)
    for kind, per_example in (("accuracy", right), ("loss", np.log(3) - losses)):
        held = evaluation.Validation(
            MODEL,
            examples(),
            jnp.asarray(order),
            jnp.int32(count),
            batch_size=batch_size,
            lane_axes=(),
            kind=kind,
        )
        expected = per_example[order[:count]].sum() / max(count, 1)
        weights = Weights(PARAMS, {})
        np.testing.assert_allclose(held.utility(weights), expected, rtol=1e-5)
        logits = held.logits(weights)
        assert logits.shape == held.logits_shape(weights)
        np.testing.assert_allclose(held.utility_of(logits), expected, rtol=1e-5)
        assert float(held.resolution) == pytest.approx(
            1 / max(count, 1) if kind == "accuracy" else 0
        )


def scored(round_num: int, validation: Examples | None = None) -> round_score.Scores:
    """After a round, of two clients whose training examples are the first five."""
    plan: Any = SimpleNamespace(
        **{"num_rounds": 5, "known_trips": False},
        **{"num_tested_attributes": 2, "differ_by_class": True},
        **{"test_batch_size": 7, "eval_every": 3},
        estimation=SimpleNamespace(private_attribute=0),
    )
    rows = jnp.asarray([[0, 1, 2], [3, 4, 0]])  # the last one is padding
    cell: Any = SimpleNamespace(split=Split(rows, jnp.asarray([3, 2]), None, None))
    data = Data(examples(), examples(), validation)
    told = Weights(PARAMS, {}), data, jnp.int32(round_num)
    of_round = partial(round_score.of_round, MODEL, plan, cell, *told)
    return on_devices(of_round, 1)


def test_a_round_is_scored_every_few_rounds_and_the_last() -> None:
    right, losses = by_hand()
    labels, attributes = (np.asarray(leaf) for leaf in jax.tree.leaves(examples())[1:])
    group = 2 * labels + attributes
    served = [right[group == g].mean() for g in group[:5]]
    worst = min(np.mean(served[:3]), np.mean(served[3:]))
    expected = [right.mean(), losses.mean(), right[attributes == 0].mean(), worst]
    two = jax.tree.map(lambda leaf: leaf[:2], examples())
    of_two = [right[:2].mean(), losses[:2].mean()]
    for round_num in range(5):
        found, validated = scored(round_num), scored(round_num, two)
        assert found[4:] == (None, None)
        if round_num in (2, 4):
            np.testing.assert_allclose(found[:4], expected, rtol=1e-5)
            np.testing.assert_allclose(validated, expected + of_two, rtol=1e-5)
        else:
            assert np.all(np.isnan(found[:4])) and np.all(np.isnan(validated))


def test_a_tenth_of_the_clients_rounded_up_is_the_worst_tenth() -> None:
    """A class without test examples counts for nobody."""
    by_class = jnp.asarray([0.5, 0.9, 0.1, jnp.nan])
    held = jnp.asarray([[4.0, 0.0, 0.0, 9.0]] * 10 + [[0.0, 3.0, 1.0, 0.0]])
    clients = [0.5] * 10 + [0.75 * 0.9 + 0.25 * 0.1]  # two are a tenth
    worst = round_score.worst_tenth(by_class, held)
    np.testing.assert_allclose(worst, np.sort(clients)[:2].mean(), rtol=1e-6)
    untested = jnp.asarray([0.0, 0.0, 0.0, 2.0])
    assert np.isnan(round_score.mean_over_groups(by_class, untested))
