"""Mapping a pure function over lanes: in chunks, over devices, with the same bits.

Lanes are the clients of the cohort or the batches of the test set. They are cut into
chunks of one fixed shape. The compiled code of a chunk is the same for any number of
devices, because the number of chunks and the index of the device are data: the compiler
can neither unroll the loop over chunks nor specialise it to a single device. (When the
index came from `axis_index` it did, and 1 device differed in the last bit from 2, 3 and
4 devices, which agreed.)

In every turn each device runs one chunk. The results are gathered and added in the
order of the lanes; psum would add them in an order that depends on the interconnect.
The bits therefore depend on `chunk_size` alone and never on the number of devices.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.extend.core
import jax.numpy as jnp
import optax

from fedsvp_jax.core.structs import Array, iota
from fedsvp_jax.core.tree import cell_of, where

S = TypeVar("S")
R = TypeVar("R")

CLIENT_AXIS = "clients"  # mesh axis over which lanes are distributed
SWEEP_AXIS = "sweep"  # mesh axis over which a sweep's cells are distributed
LANE = "lane"  # name of the vmap axis inside a chunk
CELL = "cell"  # name of the vmap axis over a device's cells


@dataclasses.dataclass(frozen=True)
class Devices:
    """The client axis of the mesh, as one device sees it."""

    count: int
    index: Array  # () int32, passed as data (see the docstring of the module)


def largest(value: Array, axes: tuple[str, ...]) -> Array:
    """The maximum of `value` over the enclosing vmap axes: one number for all lanes.

    If the bound of a loop under vmap differs between lanes, every step selects lane by
    lane whether it counts, which copies the whole carry. A common bound avoids that.
    """
    return jax.lax.pmax(value, axes) if axes else value


def ordered_sum(rows: S, start: S) -> S:
    """start + rows[0] + rows[1] + ..., leaf by leaf and in this order.

    The sum holds no products: with one, fused multiply-adds made 1 device differ from 2
    in the last bit.
    """

    def add_up(leaf: Array, total: Array) -> Array:
        for i in range(leaf.shape[0]):
            total = total + leaf[i]
        return total

    return jax.tree.map(add_up, rows, start)


def stacked(function: Callable[[Array], R], rows: Array) -> R:
    """`vmap` of `function` over rows, with the axes of enclosing vmaps in the same one.

    A TPU copies what has two axes of lanes before and after each grouped convolution.
    Clients times coalitions times cells therefore are one axis of lanes in here. Values
    that differ along an outer axis are repeated for the inner lanes.

    The function is pure and must not name an enclosing vmap axis; `rows` are (L, ...).
    """
    traced, shapes = jax.make_jaxpr(function, return_shape=True)(rows[0])

    def run_row(row: Array, *consts: Array) -> list[Array]:
        closed = jax.extend.core.ClosedJaxpr(traced.jaxpr, consts)
        return jax.extend.core.jaxpr_as_fun(closed)(row)

    shared = [False] * len(traced.consts)
    results = _of_lanes(run_row, [True, *shared])(rows, *traced.consts)
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def _of_lanes(
    function: Callable[..., list[Array]], by_lane: Sequence[bool]
) -> Callable[..., list[Array]]:
    """`vmap` of `function` over the arguments that differ by lane; the first does."""

    @jax.custom_batching.custom_vmap
    def call(*arguments: Array) -> list[Array]:
        axes = [0 if differs else None for differs in by_lane]
        return jax.vmap(function, in_axes=axes)(*arguments)

    @call.def_vmap
    def joined(
        size: int, batched: list[bool], *arguments: Array
    ) -> tuple[list[Array], list[bool]]:
        number = arguments[0].shape[int(batched[0])]

        def join(leaf: Array, differs: bool, outer: bool) -> Array:
            if not (differs or outer):
                return leaf
            if not differs:
                leaf = leaf[:, None]
            if not outer:
                leaf = leaf[None]
            full = jnp.broadcast_to(leaf, (size, number, *leaf.shape[2:]))
            return jax.lax.collapse(full, 0, 2)

        merged = [a or b for a, b in zip(by_lane, batched, strict=True)]
        flat = map(join, arguments, by_lane, batched)
        results = [
            leaf.reshape(size, number, *leaf.shape[1:])
            for leaf in _of_lanes(function, merged)(*flat)
        ]
        return results, [True] * len(results)

    return call


def map_lanes(
    function: Callable[[Array], tuple[S, R]],
    num_lanes: int,
    num_used: Array,
    *,
    chunk_size: int,
    devices: Devices,
    known_trips: bool,
) -> tuple[S, R]:
    """Maps `function` over lanes 0, 1, ...: returns a sum and stacked rows.

    In every turn each device runs one chunk, the results are gathered, and their parts
    are added in the order of the lanes. Memory therefore holds the parts of one turn
    only. It must be called inside `shard_map` with the axis `clients`.

    Args:
      function: pure; takes a lane's number () int32, returns two pytrees of arrays:
        its part of the sum, and its row. Where `chunk_size` > 1 it runs under
        `vmap(axis_name='lane')`, or with `known_trips` in `stacked`.
      num_lanes: L, rows of the result.
      num_used: () int32, number of lanes that count. Later lanes add nothing; chunks
        that hold none that counts are not run and leave rows of zeros. It must be
        computed from data, not be a constant, and be the same for all cells of a sweep
        (`largest`); the docstring of the module says why.
      chunk_size: lanes that run side by side in one vmapped call.
      devices: the client axis of the mesh.
      known_trips: run every chunk, so that no turn waits for a number.

    Returns:
      `(sum of the parts, rows with a leading (L,) axis)`, the same on every device.
    """
    per_turn = chunk_size * devices.count
    most_turns = -(-num_lanes // per_turn)

    def run_lane(lane: Array) -> tuple[S, R]:
        part, row = function(jnp.minimum(lane, num_lanes - 1))
        return part if known_trips else where(lane < num_used, part), row

    # Inlined, so the program stays the same; the turn reuses the shapes' trace.
    @functools.partial(jax.jit, inline=True)
    def run(chunk: Array) -> tuple[S, R]:
        if chunk_size == 1:
            return cell_of(run_lane(chunk[0]), None)
        if known_trips:
            return stacked(run_lane, chunk)
        return jax.vmap(run_lane, axis_name=LANE)(chunk)

    shapes = jax.eval_shape(run, iota(chunk_size))

    def turn(index: Array, carry: tuple[S, R]) -> tuple[S, R]:
        total, rows = carry
        first = index * per_turn + devices.index * chunk_size
        # Results of a branch are materialised. Otherwise, on a single device, a product
        # in them was fused with the sum below.
        chunk = first + iota(chunk_size)
        if known_trips:
            results = jax.lax.optimization_barrier(run(chunk))
        else:
            results = jax.lax.cond(
                first < num_used,
                lambda: run(chunk),
                lambda: optax.tree.zeros_like(shapes),
            )
        if devices.count > 1:
            results = jax.lax.all_gather(results, CLIENT_AXIS, tiled=True)
        parts, new_rows = results
        if known_trips:  # a TPU adds up faster where it also selects
            for i in range(per_turn):
                part = cell_of(parts, i)
                part = where(index * per_turn + i < num_used, part)
                total = optax.tree.add(total, part)
        else:
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
    num_turns: Array | int = most_turns
    if not known_trips:
        num_turns = jnp.clip(-(-num_used // per_turn), 0, most_turns)
    with jax.named_scope("turns"):
        total, rows = jax.lax.fori_loop(0, num_turns, turn, (total, rows))
    return total, cell_of(rows, slice(num_lanes))


def lane_order(sizes: Array, *, chunk_size: int) -> Array:
    """(L,) int32: the order in which lanes run, a permutation of 0, ..., L - 1.

    Lanes run by falling size, so that those of one chunk are of similar size. Lanes of
    equal size keep their order, and empty ones come last. With one lane per chunk, or
    one chunk for all lanes, the order does not matter and is left as it is.
    """
    if chunk_size == 1 or chunk_size >= sizes.shape[0]:
        return iota(sizes.shape[0])
    return jnp.argsort(-sizes, stable=True).astype(jnp.int32)
