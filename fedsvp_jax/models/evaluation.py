"""Accuracy and loss of a model on examples, in batches of one shape."""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax.core.float32 import reciprocal
from fedsvp_jax.core.structs import (
    Array,
    Examples,
    Model,
    Number,
    Params,
    Weights,
    cross_entropy,
    iota,
)
from fedsvp_jax.data import preprocessing
from fedsvp_jax.devices import lanes


class Score(NamedTuple):
    """A model's score on a set of examples."""

    accuracy: Array  # () float32 in [0, 1]; nan where the examples have targets
    loss: Array  # () float32: mean of the model's loss, cross-entropy in nats
    group_accuracy: Array  # (G,) float32 by `group`; nan for one without examples


def outputs_for(model: Model, params: Params, stats: Params, inputs: Array) -> Array:
    """(b, ...) the model's outputs in evaluation mode for inputs as they are stored."""
    x = preprocessing.normalize(inputs)
    return model.apply(params, stats, x, train=False, key=None)[0]


@dataclasses.dataclass(frozen=True)
class Validation:
    """A client's validation examples, on which a model's utility is measured.

    Attributes:
      indices: (v,) rows of `examples`, of which the first `count` are the client's.
      batch_size: examples in one batch.
      lane_axes: names of the enclosing vmap axes.
      kind: `accuracy`, or `loss`: how many nats the mean cross-entropy lies below that
        of guessing, ln c for c classes; with another loss, minus its mean.
      known_trips: compute all batches, also those without an example.

    Without validation examples every model has the utility 0.
    """

    model: Model
    examples: Examples
    indices: Array
    count: Array
    batch_size: int
    lane_axes: tuple[str, ...]
    kind: str
    known_trips: bool = False

    @property
    def _padded(self) -> Array:
        return jnp.pad(self.indices, (0, -len(self.indices) % self.batch_size))

    @property
    def _num_batches(self) -> Array | int:
        if self.known_trips:
            return -(-len(self.indices) // self.batch_size)
        return lanes.largest(-(-self.count // self.batch_size), self.lane_axes)

    @property
    def _share(self) -> Array:
        return reciprocal(jnp.maximum(self.count, 1).astype(jnp.float32))

    @property
    def resolution(self) -> Number:
        """The least step of a utility: one example's for accuracy, 0 for loss."""
        return 0.0 if self.kind == "loss" else self._share

    def _rows(self, batch: Array) -> Array:
        start = batch * self.batch_size
        return jax.lax.dynamic_slice_in_dim(self._padded, start, self.batch_size)

    def _scores(self, outputs: Array, targets: Array) -> Array:
        """(b,) int32 or float32: the score of each example."""
        if self.kind == "accuracy":
            return (jnp.argmax(outputs, -1) == targets).astype(jnp.int32)
        losses = self.model.loss(outputs, targets)
        if self.model.loss is cross_entropy:
            return math.log(outputs.shape[-1]) - losses
        return -losses

    def _mean(self, total: Array) -> Array:
        return total.astype(jnp.float32) * self._share

    def _batch_logits(self, weights: Weights, rows: Array) -> Array:
        return outputs_for(self.model, *weights, self.examples.inputs[rows])

    def utility(self, weights: Weights) -> Array:
        """() float32: the utility of a model."""

        def step(batch: Array, total: Array) -> Array:
            rows = self._rows(batch)
            logits = self._batch_logits(weights, rows)
            scores = self._scores(logits, self.examples.loss_targets[rows])
            place = batch * self.batch_size + iota(self.batch_size)
            return total + jnp.sum(jnp.where(place < self.count, scores, 0))

        start = jnp.int32(0) if self.kind == "accuracy" else jnp.float32(0)
        with jax.named_scope("validation"):
            total = jax.lax.fori_loop(0, self._num_batches, step, start)
        return self._mean(total)

    def logits_shape(self, weights: Weights) -> tuple[int, ...]:
        """(v, c) of `logits`, v padded to whole batches and c an output's shape."""
        rows = self._padded
        output = jax.eval_shape(self._batch_logits, weights, rows[:1])
        return len(rows), *output.shape[1:]

    def logits(self, weights: Weights) -> Array:
        """(v, c) float32: a model's logits; 0 in batches that are not computed."""

        def step(batch: Array, all_logits: Array) -> Array:
            logits = self._batch_logits(weights, self._rows(batch))
            return jax.lax.dynamic_update_slice_in_dim(
                all_logits, logits.astype(jnp.float32), batch * self.batch_size, 0
            )

        all_logits = jnp.zeros(self.logits_shape(weights))
        with jax.named_scope("validation"):
            return jax.lax.fori_loop(0, self._num_batches, step, all_logits)

    def utility_of(self, logits: Array) -> Array:
        """() float32: the utility of a model with these logits, (v, c)."""
        scores = self._scores(logits, self.examples.loss_targets[self._padded])
        return self._mean(jnp.sum(jnp.where(iota(len(scores)) < self.count, scores, 0)))


def group(examples: Examples, num_attributes: int) -> Array:
    """(n,) int32: class · N + attribute; the class alone where N is 1."""
    if num_attributes == 1:
        return examples.labels
    return examples.labels * num_attributes + examples.attributes


def evaluate(
    model: Model,
    weights: Weights,
    test: Examples,
    *,
    batch_size: int,
    devices: lanes.Devices,
    known_trips: bool,
    num_attributes: int = 1,
) -> Score:
    """Score on the whole test set, its batches dealt over the devices.

    N, `num_attributes`, is 1 where the test examples' attributes are unknown.
    """
    num_examples = len(test.labels)
    num_batches = -(-num_examples // batch_size)
    logits = jax.eval_shape(lambda: outputs_for(model, *weights, test.inputs[:1]))
    by_class = test.targets is None
    nobody = jnp.zeros(logits.shape[-1] * num_attributes if by_class else 1, jnp.int32)
    groups = group(test, num_attributes) if by_class else jnp.zeros_like(test.labels)

    def batch_score(batch: Array) -> tuple[tuple[Array, Array], None]:
        position = batch * batch_size + iota(batch_size)
        rows = jnp.minimum(position, num_examples - 1)
        outputs = outputs_for(model, *weights, test.inputs[rows])
        losses = model.loss(outputs, test.loss_targets[rows])
        if by_class:
            hits = (jnp.argmax(outputs, -1) == test.labels[rows]).astype(jnp.int32)
        else:
            hits = jnp.zeros(rows.shape, jnp.int32)
        counted = position < num_examples
        right = nobody.at[groups[rows]].add(jnp.where(counted, hits, 0))
        return (right, jnp.sum(jnp.where(counted, losses, jnp.float32(0.0)))), None

    (right, loss), _ = lanes.map_lanes(
        batch_score,
        num_batches,
        jax.lax.optimization_barrier(jnp.int32(num_batches)),
        chunk_size=1,
        devices=devices,
        known_trips=known_trips,
    )
    group_sizes = nobody.at[groups].add(1).astype(jnp.float32)
    right = right.astype(jnp.float32) if by_class else jnp.full((1,), jnp.nan)
    return Score(
        accuracy=jnp.sum(right) / num_examples,
        loss=loss / num_examples,
        group_accuracy=jnp.where(group_sizes > 0, right / group_sizes, jnp.nan),
    )
