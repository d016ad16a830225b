"""Replay of neighbours: one round of two worlds under the same keys, side by side.

The worlds differ in one record of one client. The model is a probe: its loss is linear,
and a record of label l pulls at row l of the weights alone. Every record has a label of
its own, so row l of an upload tells, to the bit, in which batches record l was, which
crop it got, and by what its gradient was scaled and divided. Both worlds run the
compiled round that every run takes (`Trainer.advance`), from the same state.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.algorithm.state import RoundMetrics, ServerState
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.dataset import Column, Dataset
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import Program, build
from fedsvp_jax.models.linear import make_linear
from fedsvp_jax.structs import Array, Examples, Model, Params

SIDE = 4  # of the images
SIZES = (14, 9, 8, 8)  # of the clients: unequal, so the weights are too
RECORDS = sum(SIZES)
PUBLIC, PRIVATE = 0, 1


def dataset(*, flat: bool = False) -> Dataset:
    """Images, or features, with a label each; every third record is private."""
    rng = np.random.default_rng(0)
    labels = np.arange(RECORDS, dtype=np.int32)
    codes = np.where(labels % 3 == 0, PRIVATE, PUBLIC).astype(np.int32)
    shape = (SIDE * SIDE,) if flat else (SIDE, SIDE, 1)
    images = rng.uniform(0.5, 1.5, (RECORDS, *shape)).astype(np.float32)
    return Dataset(
        name="probe",
        train_inputs=images,
        train_labels=labels,
        test_inputs=images[:8],
        test_labels=labels[:8],
        num_classes=RECORDS,
        train_writers=np.repeat(np.arange(len(SIZES)), SIZES).astype(np.int32),
        columns={"group": Column(codes, ("public", "private"))},
    )


def pull(outputs: Array, label: Array) -> Array:
    """A record's loss, linear in the weights: its gradient is -x in its label's row."""
    return -outputs[label]


def probe() -> Model:
    """Logits W x of a flattened image; W starts at small numbers."""

    def init(key: Array, example: Array) -> tuple[Params, Params]:
        size = int(np.prod(example.shape[1:]))
        return {"w": 0.01 * jax.random.normal(key, (RECORDS, size))}, {}

    def apply(params: Params, stats: Params, x: Array, **_: Any) -> tuple[Array, Any]:
        return x.reshape(x.shape[0], -1) @ params["w"].T, stats

    return Model(init, apply)


def settings(**changes: Any) -> ExperimentConfig:
    """Resolved settings of a small federation of the probe."""
    chosen = {
        "dataset": "npz",
        "partition": "by_writer",
        "num_clients": len(SIZES),
        "num_hbc_clients": 0,
        "cohort_size": 3,
        "num_rounds": 4,
        "local_epochs": 2,
        "batch_size": 3,
        "learning_rate": 5.0,
        "l2_norm_clip": 0.75,
        "private_clip": 0.75,
        "delta": 1e-3,
        "attributes": "column:group",
        "private_attribute": PRIVATE,
        "split": "by_position",
        "client_chunk_size": 1,
        "eval_every": 4,
    } | changes
    return resolve(ExperimentConfig(**chosen), dataset())


class Side(NamedTuple):
    """What one world's round left behind: host arrays of one cell."""

    state: ServerState
    metrics: RoundMetrics


class Round(NamedTuple):
    """A round that both worlds played from `before`."""

    number: int
    before: ServerState
    one: Side
    other: Side


class Replay:
    """Rounds of both worlds.

    In world "one" a record of the largest client is `scale` times as long as it was. In
    the other it is the opposite, or, where the relation leaves something out, has no
    gradient; of a whole client that is added or removed no record has one. `record` is
    its row, a private one where the query is about these, and `owner` that client.
    With `linear` a linear layer and cross-entropy take the place of the probe.
    """

    def __init__(
        self, config: ExperimentConfig, *, scale: float = 1e4, linear: bool = False
    ) -> None:
        self.config = config
        own = (make_linear(RECORDS), None) if linear else (probe(), pull)
        self.program: Program = build(
            [config], dataset(flat=linear), model=own[0], loss=own[1]
        )
        self.trainer = Trainer(self.program)
        split = self.program.data.split
        self.owner = int(np.argmax(split.num_train[0]))
        rows = split.train[0, self.owner, : int(split.num_train[0, self.owner])]
        self.rows_of_owner = np.asarray(rows)
        asks = config.sensitivity == "attribute_records"
        private = np.asarray(self.program.data.examples.attributes) == PRIVATE
        self.record = int(next(r for r in rows if not asks or private[r]))
        self.rescale(scale)

    def rescale(self, scale: float) -> None:
        """Makes the worlds anew, for the rounds that are compiled."""
        config, inputs = self.config, self.program.data.examples.inputs
        one = inputs.at[self.record].multiply(scale)
        clipped = config.sensitivity in ("per_example", "attribute_records")
        if config.mechanism == "dp_fedavg" or (
            config.relation == "add_remove" and not clipped
        ):
            other = one.at[self.rows_of_owner].set(0.0)
        elif config.relation == "add_remove":
            other = one.at[self.record].set(0.0)
        else:
            other = one.at[self.record].multiply(-1.0)
        given = self.program.data.examples
        self.worlds: list[Examples] = [
            dataclasses.replace(given, inputs=inputs) for inputs in (one, other)
        ]

    def rounds(self) -> Iterator[Round]:
        """Every round, from the state that the first world has reached."""
        state = self.trainer.initial_state()
        for number in range(self.config.num_rounds):
            sides = []
            for examples in self.worlds:
                copy = jax.tree.map(jnp.copy, state)  # a round consumes its state
                after, metrics = self.trainer.advance(
                    self.trainer.place(copy), number, 1, examples=examples
                )
                sides.append((after, jax.tree.map(lambda leaf: leaf[0, 0], metrics)))
            before, state = state, sides[0][0]
            yield Round(
                number,
                _host(before),
                *(Side(_host(after), metrics) for after, metrics in sides),
            )


def _host(state: ServerState) -> ServerState:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], jax.device_get(state))
