"""What the devices of a round send one another: a formula, and what was compiled."""

import dataclasses
import math
import re
from typing import NamedTuple

import jax

from fedsvp_jax.engine.trainer import Trainer

_GATHER = re.compile(r"= (\w+)\[([\d,]*)\]\S* all-gather\(")
_COLLECTIVE = re.compile(
    r"= \S+ (all-reduce|all-to-all|reduce-scatter|collective-permute)(-start)?\("
)
_BYTES = {"pred": 1, "s32": 4, "u32": 4, "f32": 4}


class Gathered(NamedTuple):
    """Bytes of a round's gathers on every device, for one cell."""

    uploads: int  # weighted models and normalisation statistics
    records: int  # the clients' metrics and mechanism states, at most
    scores: int  # the test batches'

    @property
    def total(self) -> int:
        """All together."""
        return sum(self)


def turns(num_lanes: int, chunk_size: int, num_devices: int) -> int:
    """Gathers of one chunk a device that all lanes take."""
    return math.ceil(num_lanes / (chunk_size * num_devices))


def rows_of(num_lanes: int, chunk_size: int, num_devices: int) -> int:
    """Rows of all gathers: lanes, filled up to whole chunks on every device."""
    return num_devices * chunk_size * turns(num_lanes, chunk_size, num_devices)


def gathered(trainer: Trainer) -> Gathered:
    """The formula: R(K) * 4 (P + S), R(K) * record, R(batches) * 8 bytes.

    R(n) = D c ceil(n / (c D)) for D devices on the clients' axis and chunks of c (1
    for the test batches), P parameters, S statistics. All zero for D = 1: nothing is
    sent. Of these bytes a device makes one in D itself and receives the others.
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
        sum(  # leaves (rounds, cells, K, ...); the ids are known everywhere
            math.prod(leaf.shape[3:]) * leaf.dtype.itemsize
            for leaf in jax.tree.leaves(
                dataclasses.replace(metrics.clients, client_id=None)
            )
        )
        + sum(leaf.dtype.itemsize for leaf in jax.tree.leaves(state.mechanism.clients))
    )
    rows = rows_of(plan.cohort_size, plan.client_chunk_size, num_devices)
    batches = -(-trainer.program.data.test.labels.shape[0] // plan.test_batch_size)
    return Gathered(rows * model, rows * record, rows_of(batches, 1, num_devices) * 8)


class Compiled(NamedTuple):
    """The collectives of a compiled program, by what they carry."""

    gathers: list[tuple[str, tuple[int, ...]]]  # type and shape of each result
    others: list[str]  # names of collectives that are no gathers

    def gathered_bytes(self) -> int:
        """Bytes of all gathers' results."""
        return sum(_BYTES[kind] * math.prod(shape) for kind, shape in self.gathers)


def compiled_collectives(program: str) -> Compiled:
    """Read from the text of an optimised program; a loop's body counts once."""
    gathers = [
        (kind, tuple(int(length) for length in shape.split(",") if length))
        for kind, shape in _GATHER.findall(program)
    ]
    return Compiled(gathers, [found[0] for found in _COLLECTIVE.findall(program)])
