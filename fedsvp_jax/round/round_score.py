"""The scores of the model after a round: of all, of the private, of the worst served.

They read the broadcast model and the server's test and validation set. The score of the
worst served also reads how many examples of each class and attribute every client
holds. One changed label moves it, so it is for the experimenter alone and not released
(disclosure.toml). A group is a class where the data set does not tell the
attributes of its test examples.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax.core.structs import Array, Model, Weights, iota
from fedsvp_jax.devices import lanes
from fedsvp_jax.models import evaluation

from .state import Cell, Data, RoundPlan


class Scores(NamedTuple):
    """() float32 each, as `RoundMetrics` has them."""

    test_accuracy: Array
    test_loss: Array
    private_accuracy: Array
    worst_tenth_accuracy: Array
    validation_accuracy: Array | None = None  # None without a validation set
    validation_loss: Array | None = None


def of_round(
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    weights: Weights,
    data: Data,
    round_num: Array,
    devices: lanes.Devices,
) -> Scores:
    """The model's scores in every `eval_every`-th round and in the last, else NaN."""
    examples, test, validation = data
    done, nan = round_num + 1, jnp.float32(jnp.nan)
    num_attributes = max(plan.num_tested_attributes, 1)

    def scores() -> Scores:
        evaluate = partial(
            evaluation.evaluate,
            model,
            weights,
            devices=devices,
            known_trips=plan.known_trips,
        )
        batch_size = plan.test_batch_size
        score = evaluate(test, batch_size=batch_size, num_attributes=num_attributes)
        private = worst = nan
        by_group = score.group_accuracy
        if plan.num_tested_attributes:
            groups = iota(len(by_group))
            of_private = groups % num_attributes == plan.estimation.private_attribute
            tested = evaluation.group(test, num_attributes)
            counts = jnp.zeros_like(groups).at[tested].add(1)
            private = mean_over_groups(by_group, jnp.where(of_private, counts, 0))
        if plan.differ_by_class:
            split, of_example = cell.split, evaluation.group(examples, num_attributes)
            of_rows = of_example[split.train]  # padded
            valid = jnp.arange(of_rows.shape[1])[None] < split.num_train[:, None]
            clients = iota(len(of_rows))[:, None]
            empty = jnp.zeros((len(of_rows), len(by_group)), jnp.float32)
            group_counts = empty.at[clients, of_rows].add(valid.astype(jnp.float32))
            worst = worst_tenth(by_group, group_counts)
        served = Scores(score.accuracy, score.loss, private, worst)
        if validation is None:
            return served
        chosen_by = evaluate(
            validation, batch_size=min(batch_size, len(validation.labels))
        )
        return served._replace(
            validation_accuracy=chosen_by.accuracy, validation_loss=chosen_by.loss
        )

    unseen = None if validation is None else nan
    with jax.named_scope("score"):
        return jax.lax.cond(
            (done % plan.eval_every == 0) | (done == plan.num_rounds),
            scores,
            lambda: Scores(nan, nan, nan, nan, unseen, unseen),
        )


def mean_over_groups(group_accuracy: Array, weights: Array) -> Array:
    """(...) float32: the accuracy on examples that fall on the groups as weighted.

    Groups without test examples are left out; nan where no other group has a weight.

    Args:
      group_accuracy: (G,) of `Score`.
      weights: (..., G) not negative.
    """
    weights = weights.astype(jnp.float32)
    tested = jnp.broadcast_to(~jnp.isnan(group_accuracy), weights.shape)
    weights = jnp.where(tested, weights, 0.0)
    return (weights @ jnp.nan_to_num(group_accuracy)) / jnp.sum(weights, axis=-1)


def worst_tenth(group_accuracy: Array, group_counts: Array) -> Array:
    """() float32: mean accuracy of the tenth of clients that the model serves worst.

    A client's accuracy is that on test examples which fall on the groups as its
    training examples do. A tenth is rounded up.

    Args:
      group_accuracy: (G,) of `Score`.
      group_counts: (M, G) each client's training examples by group.
    """
    ordered = jnp.sort(mean_over_groups(group_accuracy, group_counts))
    return jnp.mean(ordered[: math.ceil(len(ordered) / 10)])
