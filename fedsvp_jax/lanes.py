"""Mapping a pure function over lanes: in chunks, over devices, with the same bits.

Lanes (the cohort's clients, the test set's batches) are cut into chunks of one
fixed shape. A chunk is one compiled product whatever the number of devices, and
the loop over a device's chunks has a traced trip count, so the compiler can
neither unroll it nor specialise it to how many chunks this device was dealt.
Results come back by all_gather in lane order. The bits of a lane therefore
depend on `chunk_size` alone, never on the number of devices.
"""

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


def largest(value: Array, axes: tuple[str, ...]) -> Array:
    """The maximum of `value` over the enclosing vmap axes: one number for all lanes.

    Under vmap a loop whose bound differs by lane is predicated lane by lane,
    which copies its whole carry at every step; a common bound is not.
    """
    return jax.lax.pmax(value, axes) if axes else value


def map_lanes(
    function: Callable[[Array], T], lanes: Array, *, chunk_size: int, num_devices: int
) -> T:
    """`jnp.stack([function(lane) for lane in lanes])` over the mesh's client axis.

    Must be called inside `shard_map` with the axis `clients` of `num_devices`.

    Args:
      function: pure; takes one lane's scalar, returns a pytree of arrays. It runs
        under `vmap(axis_name='lane')` when `chunk_size` > 1 and bare otherwise.
      lanes: (L,) int32.
      chunk_size: lanes that run side by side in one vmapped call.
      num_devices: size of the mesh's client axis.

    Returns:
      The results with a leading (L,) axis, the same on every device.
    """
    num_lanes = lanes.shape[0]
    per_device = chunk_size * -(-num_lanes // (chunk_size * num_devices))
    padded = jnp.pad(lanes, (0, per_device * num_devices - num_lanes), mode="edge")
    first = jax.lax.axis_index(CLIENT_AXIS) * per_device
    mine = jax.lax.dynamic_slice_in_dim(padded, first, per_device)
    num_chunks = jnp.clip(-(-(num_lanes - first) // chunk_size), 0)

    if chunk_size == 1:

        def run(chunk: Array) -> T:
            return jax.tree.map(lambda leaf: leaf[None], function(chunk[0]))
    else:
        run = jax.vmap(function, axis_name=LANE)

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
