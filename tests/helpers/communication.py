"""The bytes that devices exchange in a round, by a formula."""

import dataclasses
import math
from typing import NamedTuple

import jax

from fedsvp_jax.engine.trainer import Trainer


class Gathered(NamedTuple):
    """Bytes of a round's gathers on every device, for one cell of a sweep."""

    uploads: int  # weighted models and normalisation statistics
    records: int  # metrics and mechanism states of the clients: an upper bound
    scores: int  # of the test batches

    @property
    def total(self) -> int:
        """The sum of all."""
        return sum(self)


def turns(num_lanes: int, chunk_size: int, num_devices: int) -> int:
    """Gathers that all lanes need, each of one chunk per device."""
    return math.ceil(num_lanes / (chunk_size * num_devices))


def rows_of(num_lanes: int, chunk_size: int, num_devices: int) -> int:
    """Rows of all gathers: the lanes, padded to whole chunks on every device."""
    return num_devices * chunk_size * turns(num_lanes, chunk_size, num_devices)


def gathered(trainer: Trainer) -> Gathered:
    """Bytes by the formula: R(K) * 4 (P + S), R(K) * record and R(batches) * 4 (G + 1).

    R(n) = D c ceil(n / (c D)) with D devices on the clients' axis, chunks of c (1 for
    the test batches), P parameters, S statistics and G groups of test examples: the
    classes, times the attributes where the test set tells them. With D = 1 nothing is
    sent and all are zero. A device computes one in D of these bytes itself and receives
    the others.
    """
    plan, num_devices = trainer.program.plan, trainer.placement.num_devices
    if num_devices == 1:
        return Gathered(0, 0, 0)
    state, metrics = trainer.lower().out_info
    model = sum(
        math.prod(leaf.shape[1:]) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves((state.params, state.stats))
    )
    record = (
        sum(  # leaves (rounds, cells, K, ...); every device knows the ids
            math.prod(leaf.shape[3:]) * leaf.dtype.itemsize
            for leaf in jax.tree.leaves(
                dataclasses.replace(metrics.clients, client_id=None)
            )
        )
        + sum(leaf.dtype.itemsize for leaf in jax.tree.leaves(state.mechanism.clients))
    )
    rows = rows_of(plan.cohort_size, plan.client_chunk_size, num_devices)
    batches = -(
        -trainer.program.data.test.labels.shape[0] // plan.scores.test_batch_size
    )
    groups = trainer.program.data.num_classes * max(
        plan.scores.num_tested_attributes, 1
    )
    per_batch = 4 * (groups + 1)  # right by group; the loss
    return Gathered(
        rows * model, rows * record, rows_of(batches, 1, num_devices) * per_batch
    )
