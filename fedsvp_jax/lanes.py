"""Mapping a pure function over lanes: in chunks, over devices, with the same bits.

Lanes (the cohort's clients, the test set's batches) are cut into chunks of one
fixed shape. A chunk is one compiled product whatever the number of devices: how many
chunks a device is dealt and which one it is are data, so the compiler can neither
unroll the loop over chunks nor specialise it to a single device (which it did,
when the index came from `axis_index`: 1 device then differed from 2, 3 and 4,
which agreed, in the last bit).
Results come back by all_gather in lane order. The bits of a lane therefore
depend on `chunk_size` alone, never on the number of devices.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from fedsvp_jax.structs import Array

T = TypeVar("T")

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


def map_lanes(
    function: Callable[[Array], T],
    num_lanes: int,
    num_used: Array,
    *,
    chunk_size: int,
    devices: Devices,
) -> T:
    """`function` of the lanes 0, 1, ..., stacked, over the mesh's client axis.

    Must be called inside `shard_map` with the axis `clients`.

    Args:
      function: pure; takes a lane's number () int32, returns a pytree of arrays.
        It runs under `vmap(axis_name='lane')` when `chunk_size` > 1, bare otherwise.
      num_lanes: L, places in the result.
      num_used: () int32, lanes that are wanted; chunks beyond them are not run and
        leave zeros. Computed from data, never a constant: see above.
      chunk_size: lanes that run side by side in one vmapped call.
      devices: the mesh's client axis.

    Returns:
      The results with a leading (L,) axis, the same on every device.
    """
    per_device = chunk_size * -(-num_lanes // (chunk_size * devices.count))
    first = devices.index * per_device
    mine = jnp.minimum(first + jnp.arange(per_device, dtype=jnp.int32), num_lanes - 1)
    num_chunks = jnp.clip(-(-(num_used - first) // chunk_size), 0, per_device)

    def run(chunk: Array) -> T:
        if chunk_size == 1:
            return jax.tree.map(lambda leaf: leaf[None], function(chunk[0]))
        return jax.vmap(function, axis_name=LANE)(chunk)

    def step(index: Array, buffers: T) -> T:
        start = index * chunk_size
        results = run(jax.lax.dynamic_slice_in_dim(mine, start, chunk_size))
        return jax.tree.map(
            lambda buffer, rows: jax.lax.dynamic_update_slice_in_dim(
                buffer, rows, start, 0
            ),
            buffers,
            results,
        )

    shapes = jax.eval_shape(run, mine[:chunk_size])
    buffers = jax.tree.map(
        lambda s: jnp.zeros((per_device, *s.shape[1:]), s.dtype), shapes
    )
    local = jax.lax.fori_loop(0, num_chunks, step, buffers)
    gathered = jax.lax.all_gather(local, CLIENT_AXIS, tiled=True)
    return jax.tree.map(lambda leaf: leaf[:num_lanes], gathered)
