"""Mapping a pure function over lanes: in chunks, over devices, with the same bits.

Lanes (the cohort's clients, the test set's batches) are cut into chunks of one
fixed shape. A chunk is one compiled product whatever the number of devices: how many
chunks a device is dealt and which one it is are data, so the compiler can neither
unroll the loop over chunks nor specialise it to a single device (which it did,
when the index came from `axis_index`: 1 device then differed from 2, 3 and 4,
which agreed, in the last bit).
Every turn the devices' chunks are gathered and added in lane order (psum's order is
the interconnect's). The bits therefore depend on `chunk_size` alone, never on the
number of devices.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from fedsvp_jax.structs import Array

S = TypeVar("S")
R = TypeVar("R")

CLIENT_AXIS = "clients"  # mesh axis over which lanes are dealt
SWEEP_AXIS = "sweep"  # mesh axis over which a sweep's cells are dealt
LANE = "lane"  # vmap axis inside a chunk
CELL = "cell"  # vmap axis over a device's cells


@dataclasses.dataclass(frozen=True)
class Devices:
    """The mesh's client axis as a device sees it."""

    count: int
    index: Array  # () int32, handed in as data: see the module's text


def largest(value: Array, axes: tuple[str, ...]) -> Array:
    """The maximum of `value` over the enclosing vmap axes: one number for all lanes.

    Under vmap a loop whose bound differs by lane is predicated lane by lane,
    which copies its whole carry at every step; a common bound is not.
    """
    return jax.lax.pmax(value, axes) if axes else value


def ordered_sum(rows: S, start: S) -> S:
    """start + rows[0] + rows[1] + ..., leaf by leaf, the order written out.

    Only additions: with a product inside the sum, fused multiply-adds made 1 device
    differ from 2 in the last bit.
    """

    def add_up(leaf: Array, total: Array) -> Array:
        for i in range(leaf.shape[0]):
            total = total + leaf[i]
        return total

    return jax.tree.map(add_up, rows, start)


def map_lanes(
    function: Callable[[Array], tuple[S, R]],
    num_lanes: int,
    num_used: Array,
    *,
    chunk_size: int,
    devices: Devices,
) -> tuple[S, R]:
    """`function` of the lanes 0, 1, ...: a sum and stacked rows, over the devices.

    Every turn each device runs one chunk, the chunks are gathered, and their parts
    are added in lane order, so that memory holds one turn's parts and not all lanes'.
    Must be called inside `shard_map` with the axis `clients`.

    Args:
      function: pure; takes a lane's number () int32, returns two pytrees of arrays:
        its part of the sum, and its row. It runs under `vmap(axis_name='lane')`
        when `chunk_size` > 1, bare otherwise.
      num_lanes: L, rows of the result.
      num_used: () int32, lanes that are wanted: the others add nothing, and chunks
        beyond them are not run and leave rows of zeros. Computed from data, never a
        constant, and the same for all cells of a sweep (`largest`): see above.
      chunk_size: lanes that run side by side in one vmapped call.
      devices: the mesh's client axis.

    Returns:
      `(sum of the parts, rows with a leading (L,) axis)`, the same on every device.
    """
    per_turn = chunk_size * devices.count
    most_turns = -(-num_lanes // per_turn)

    def one(lane: Array) -> tuple[S, R]:
        part, row = function(jnp.minimum(lane, num_lanes - 1))
        used = lane < num_used
        return jax.tree.map(lambda leaf: jnp.where(used, leaf, 0), part), row

    def run(chunk: Array) -> tuple[S, R]:
        if chunk_size == 1:
            return jax.tree.map(lambda leaf: leaf[None], one(chunk[0]))
        return jax.vmap(one, axis_name=LANE)(chunk)

    shapes = jax.eval_shape(run, jnp.arange(chunk_size, dtype=jnp.int32))

    def turn(index: Array, carry: tuple[S, R]) -> tuple[S, R]:
        total, rows = carry
        first = index * per_turn + devices.index * chunk_size
        # Results of a branch are written out, so that no product in them is contracted
        # with the sum, which happened on one device only.
        results = jax.lax.cond(
            first < num_used,
            lambda: run(first + jnp.arange(chunk_size, dtype=jnp.int32)),
            lambda: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes),
        )
        if devices.count > 1:
            results = jax.lax.all_gather(results, CLIENT_AXIS, tiled=True)
        parts, new_rows = results
        total = ordered_sum(parts, total)
        rows = jax.tree.map(
            lambda buffer, new: jax.lax.dynamic_update_slice_in_dim(
                buffer, new, index * per_turn, 0
            ),
            rows,
            new_rows,
        )
        return total, rows

    total = jax.tree.map(lambda s: jnp.zeros(s.shape[1:], s.dtype), shapes[0])
    rows = jax.tree.map(
        lambda s: jnp.zeros((most_turns * per_turn, *s.shape[1:]), s.dtype), shapes[1]
    )
    num_turns = jnp.clip(-(-num_used // per_turn), 0, most_turns)
    total, rows = jax.lax.fori_loop(0, num_turns, turn, (total, rows))
    return total, jax.tree.map(lambda leaf: leaf[:num_lanes], rows)


def lane_order(sizes: Array, *, chunk_size: int) -> Array:
    """(L,) int32: whose turn each lane is, a permutation of the places 0, ..., L - 1.

    By falling size, equal ones and empty places last as they were. One lane a chunk
    and one chunk for all need no order and keep the given one.

    Args:
      sizes: (L,) int32; 0 for an empty place.
      chunk_size: c, as `lanes.map_lanes` takes it.
    """
    if chunk_size == 1 or chunk_size >= sizes.shape[0]:
        return jnp.arange(sizes.shape[0], dtype=jnp.int32)
    return jnp.argsort(-sizes, stable=True).astype(jnp.int32)


def steps_run(steps: Array, order: Array, *, chunk_size: int) -> Array:
    """() int32: steps that the chunks run, padding counted, for (L, T) steps needed.

    T trainings follow one another, and each runs to the largest lane of its chunk.
    The last chunk is filled up with copies of its last lane, which run as well.
    """
    missing = -order.shape[0] % chunk_size
    by_lane = jnp.pad(steps[order], ((0, missing), (0, 0)))
    by_chunk = by_lane.reshape(-1, chunk_size, steps.shape[1]).max(axis=1)
    return chunk_size * jnp.sum(by_chunk)
