"""The scores of the model after a round: of all, of the private, of the worst served.

They read the broadcast model, the test set, and how many examples of each class every
client holds, which is public (docs/privacy.md, "What is public").
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax.algorithm import evaluation
from fedsvp_jax.algorithm.state import Cell, RoundPlan
from fedsvp_jax.devices import lanes
from fedsvp_jax.structs import Array, Examples, Model, Params, Split


class Scores(NamedTuple):
    """() float32 each, as `RoundMetrics` has them."""

    accuracy: Array
    loss: Array
    private: Array
    worst_tenth: Array


def of_round(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    params: Params,
    stats: Params,
    examples: Examples,
    test: Examples,
    round_num: Array,
    devices: lanes.Devices,
) -> Scores:
    """The model's scores in every `eval_every`-th round and in the last, else NaN."""
    done, nan = round_num + 1, jnp.float32(jnp.nan)

    def scores() -> Scores:
        found = evaluation.evaluate(
            model,
            params,
            stats,
            test,
            batch_size=plan.test_batch_size,
            devices=devices,
        )
        private = worst = nan
        by_class = found.class_accuracy
        if plan.private_classes:
            classes = jnp.asarray(plan.private_classes)
            tested = jnp.sum(test.labels[:, None] == classes[None], axis=0)
            private = mean_over_classes(by_class[classes], tested)
        if plan.differ_by_class:
            counts = _class_counts(cell.split, examples, by_class.shape[0])
            worst = worst_tenth(by_class, counts)
        return Scores(found.accuracy, found.loss, private, worst)

    return jax.lax.cond(
        (done % plan.eval_every == 0) | (done == plan.num_rounds),
        scores,
        lambda: Scores(nan, nan, nan, nan),
    )


def mean_over_classes(class_accuracy: Array, weights: Array) -> Array:
    """(...) float32: the accuracy on examples that fall on the classes as weighted.

    Classes without test examples are left out; nan where no other class has a weight.

    Args:
      class_accuracy: (C,) of `Score`.
      weights: (..., C) not negative.
    """
    weights = weights.astype(jnp.float32)
    tested = jnp.broadcast_to(~jnp.isnan(class_accuracy), weights.shape)
    weights = jnp.where(tested, weights, 0.0)
    return (weights @ jnp.nan_to_num(class_accuracy)) / jnp.sum(weights, axis=-1)


def worst_tenth(class_accuracy: Array, class_counts: Array) -> Array:
    """() float32: mean accuracy of the tenth of clients that the model serves worst.

    A client's accuracy is that on test examples which fall on the classes as its
    training examples do. A tenth is rounded up.

    Args:
      class_accuracy: (C,) of `Score`.
      class_counts: (M, C) each client's training examples by class.
    """
    ordered = jnp.sort(mean_over_classes(class_accuracy, class_counts))
    return jnp.mean(ordered[: math.ceil(ordered.shape[0] / 10)])


def _class_counts(split: Split, examples: Examples, num_classes: int) -> Array:
    """(M, C) float32: each client's training examples by class."""
    labels = examples.labels[split.train]
    held = jnp.arange(labels.shape[1])[None] < split.num_train[:, None]
    clients = jnp.arange(labels.shape[0])[:, None]
    empty = jnp.zeros((labels.shape[0], num_classes), jnp.float32)
    return empty.at[clients, labels].add(held.astype(jnp.float32))
