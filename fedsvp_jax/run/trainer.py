"""Many rounds of one run, or of a sweep's cells side by side, as one program."""

import ctypes
import dataclasses
import sys
from functools import lru_cache, partial
from typing import Any

import flax.struct
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from fedsvp_jax.core.structs import Array, Model
from fedsvp_jax.core.tree import cell_of, num_bytes
from fedsvp_jax.devices import compiler_flags, lanes
from fedsvp_jax.devices.target import Target
from fedsvp_jax.federation.program import Program
from fedsvp_jax.round.federated_round import federated_round
from fedsvp_jax.round.state import (
    Cell,
    Data,
    RoundMetrics,
    RoundPlan,
    ServerState,
    initial_state,
)

from .placement import Placement

_BY_CELL = PartitionSpec(lanes.SWEEP_AXIS)
_BY_ROUND = PartitionSpec(None, lanes.SWEEP_AXIS)
_BY_CLIENT = PartitionSpec(lanes.CLIENT_AXIS)
_EVERYWHERE = PartitionSpec()

Advanced = tuple[ServerState, Any]  # after some rounds, with their metrics


class Trainer:
    """The compiled rounds of a program: it starts states and advances them.

    Raises:
      ValueError: the placement does not fit the devices or the cells, or the device
        computes wrong numbers (`compiler_flags`).
    """

    def __init__(self, program: Program, *, placement: Placement | None = None) -> None:
        compiler_flags.check_arithmetic()
        self.program = program
        placement, data = placement or Placement(), program.data
        num_devices = placement.num_devices or program.target.client_devices(
            jax.device_count() // placement.sweep_devices,
            turns=-(-program.plan.cohort_size // program.plan.client_chunk_size),
            weights=num_bytes(program.model.shapes(data.example).params),
            data=num_bytes((data.examples, data.test, data.validation)),
        )
        self.placement = dataclasses.replace(placement, num_devices=num_devices)
        cells, rest = divmod(len(program.configs), self.placement.sweep_devices)
        if rest:
            raise ValueError(
                f"sweep_devices must divide the {len(program.configs)} cells of "
                f"mechanism {program.plan.mechanism}, got "
                f"{self.placement.sweep_devices}"
            )
        mesh = self.placement.mesh()
        limit = self.placement.cell_chunk_size or program.cells_together
        self.cell_chunk = max(n for n in range(1, limit + 1) if cells % n == 0)
        self._by_cell = NamedSharding(mesh, _BY_CELL)
        self._everywhere = NamedSharding(mesh, _EVERYWHERE)
        # Placed once: jit would copy to every device in every call.
        self.cells = jax.device_put(program.cells, self._by_cell)
        self._data: Data = jax.device_put(
            Data(data.examples, data.test, data.validation), self._everywhere
        )
        self._device_index = jax.device_put(
            np.arange(self.placement.num_devices, dtype=np.int32),
            NamedSharding(mesh, _BY_CLIENT),
        )
        leaves, structure = jax.tree.flatten((program.cells, self._data))
        self._start, self._compiled = _jitted(
            program.model,
            program.plan,
            self.placement,
            program.target,
            self.cell_chunk,
            # With a stream, each round brings its own cohort.
            self.placement.rounds_per_call if program.stream is None else 1,
            (structure, *map(jax.typeof, leaves)),
        )
        self._has_run = False

    def initial_state(self) -> ServerState:
        """The cells' states before round 0, stacked."""
        return self.place(self._start(self.program.cells, self.program.data.example))

    def place(self, state: ServerState) -> ServerState:
        """Puts a state (a restored one, say) where the compiled rounds want it."""
        return jax.device_put(state, self._by_cell)

    def advance(
        self, state: ServerState, first_round: int, num_rounds: int
    ) -> Advanced:
        """Runs rounds `first_round`, ... and returns the state and host metrics.

        Args:
          state: consumed (its buffers are donated).
          first_round: rounds done so far.
          num_rounds: at most `placement.rounds_per_call`.

        Returns:
          `(state, metrics)`, metrics as numpy with the axes (num_rounds, cells).
        """
        stream = self.program.stream
        if stream is None:
            return self._run(state, self.cells, self._data, first_round, num_rounds)
        by_round = []
        for round_num in range(first_round, first_round + num_rounds):
            cohort = stream(round_num, jax.device_get(state.spent)[0])
            of_cell = cell_of((cohort.split, cohort.clients), None)
            split, clients = jax.device_put(of_cell, self._by_cell)
            cells = dataclasses.replace(self.cells, split=split, cohort=clients)
            placed = jax.device_put(cohort.examples, self._everywhere)
            data = self._data._replace(examples=placed)
            state, metrics = self._run(state, cells, data, round_num, 1)
            by_round.append(metrics)
        return state, jax.tree.map(lambda *rows: np.concatenate(rows), *by_round)

    def _run(
        self,
        state: ServerState,
        cells: Cell,
        data: Data,
        first_round: int,
        num_rounds: int,
    ) -> Advanced:
        arguments = (
            state,
            cells,
            data,
            self._device_index,
            np.int32(first_round),
            np.int32(num_rounds),
        )
        if not self._has_run:
            if self.program.target.platform == "cuda":
                # cuDNN opens for the first convolution that tries programs out. In a
                # graph, from a cache of compiled programs, it could not.
                images, kernel = jnp.ones((1, 1, 8, 8)), jnp.ones((1, 1, 3, 3))
                jax.lax.conv(images, kernel, (1, 1), "SAME").block_until_ready()
            # jit keeps the program, so the call below finds it.
            self._compiled.lower(*arguments).compile()
            give_back_freed()
            self._has_run = True
        state, metrics = self._compiled(*arguments)
        metrics = jax.device_get(metrics)
        if isinstance(metrics, _Joined):
            metrics = metrics.split()
        return state, cell_of(metrics, slice(num_rounds))

    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the compiled rounds, with shapes in place of the state."""
        sharding = self._by_cell
        state = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
            jax.eval_shape(self._start, self.program.cells, self.program.data.example),
        )
        rounds = jnp.int32(0), jnp.int32(1)
        return state, self.cells, self._data, self._device_index, *rounds

    def lower(self) -> jax.stages.Lowered:
        """The program that `advance` runs, lowered."""
        return self._compiled.lower(*self.arguments())

    def export(self) -> jax.export.Exported:
        """The same program lowered for its target, which may be absent."""
        platforms = [self.program.target.platform]
        return jax.export.export(self._compiled, platforms=platforms)(*self.arguments())


@flax.struct.dataclass
class _Joined:
    """Metrics as one array for each type of number.

    A TPU takes 1.8 thousand cycles to write an array, however small.

    Attributes:
      numbers: (..., n) by type: all leaves, one after another.
      shapes: of the leaves of one cell and round.
    """

    numbers: dict[str, Any]
    shapes: RoundMetrics = flax.struct.field(pytree_node=False)

    def split(self) -> RoundMetrics:
        """The metrics as numpy."""
        rest = dict(self.numbers)

        def leaf(shape: Array) -> Any:
            kind = shape.dtype.name
            part, rest[kind] = np.split(rest[kind], [shape.size], axis=-1)
            return part.reshape(*part.shape[:-1], *shape.shape)

        return jax.tree.map(leaf, self.shapes)


def _joined(metrics: RoundMetrics) -> _Joined:
    """Metrics of one round and cell."""
    leaves = jax.tree.leaves(metrics)
    return _Joined(
        {
            kind: jnp.concatenate(
                [leaf.ravel() for leaf in leaves if leaf.dtype == kind]
            )
            for kind in ("bool", "float32", "int32")
        },
        jax.tree.map(jax.typeof, metrics),
    )


@lru_cache(maxsize=8)
def _jitted(
    model: Model,
    plan: RoundPlan,
    placement: Placement,
    target: Target,
    cell_chunk: int,
    rounds_in_program: int,
    shapes: tuple[Any, ...],
) -> tuple[Any, Any]:
    """The compiled start and rounds, which runs of equal arguments share.

    So seeds and repeated runs are compiled once. The last eight entries are kept, with
    one program each and no data but what a model of one's own closes over.

    Args:
      shapes: of the cells and the data.
    """
    mesh = placement.mesh()

    def start(cells: Cell, example: Array) -> ServerState:
        return jax.lax.map(partial(initial_state, model, plan, example), cells)

    def rounds(
        state: ServerState,
        cells: Cell,
        data: Data,
        device_index: Array,
        first_round: Array,
        num_rounds: Array,
    ) -> Advanced:
        devices = lanes.Devices(placement.num_devices, device_index[0])

        # Inlined, so the program stays the same; the loop reuses the shapes' trace.
        @partial(jax.jit, inline=True)
        def one_round(state: ServerState, round_num: Array) -> Advanced:
            def run_cell(
                state: ServerState, cell: Cell, outer_axes: tuple[str, ...] = ()
            ) -> Advanced:
                state, metrics = federated_round(
                    model,
                    plan,
                    cell,
                    state,
                    data,
                    round_num=round_num,
                    devices=devices,
                    outer_axes=outer_axes,
                )
                return state, _joined(metrics) if plan.known_trips else metrics

            if cell_chunk == 1:
                return jax.lax.map(lambda pair: run_cell(*pair), (state, cells))
            side_by_side = jax.vmap(
                partial(run_cell, outer_axes=(lanes.CELL,)), axis_name=lanes.CELL
            )
            if cell_chunk == len(cells.root.shared):
                return side_by_side(state, cells)
            grouped = jax.tree.map(
                lambda leaf: leaf.reshape(-1, cell_chunk, *leaf.shape[1:]),
                (state, cells),
            )
            results = jax.lax.map(lambda pair: side_by_side(*pair), grouped)
            return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), results)

        shapes = jax.eval_shape(one_round, state, first_round)[1]
        buffers = jax.tree.map(
            lambda s: jnp.zeros((rounds_in_program, *s.shape), s.dtype), shapes
        )

        def step(index: Array, carry: Advanced) -> Advanced:
            def written(buffer: Array, row: Array) -> Array:
                if plan.known_trips:  # a TPU selects where the place may be none
                    return jax.lax.dynamic_update_index_in_dim(buffer, row, index, 0)
                return buffer.at[index].set(row)

            state, rows = one_round(carry[0], first_round + index)
            return state, jax.tree.map(written, carry[1], rows)

        with jax.named_scope("rounds"):
            if rounds_in_program == 1 and plan.known_trips:
                state, rows = one_round(state, first_round)
                metrics = cell_of(rows, None)
            else:
                state, metrics = jax.lax.fori_loop(
                    0, num_rounds, step, (state, buffers)
                )
        return state, metrics

    out_specs = (_BY_CELL, _BY_ROUND)
    divided = jax.shard_map(
        rounds,
        mesh=mesh,
        in_specs=(
            _BY_CELL,
            _BY_CELL,
            _EVERYWHERE,
            _BY_CLIENT,
            _EVERYWHERE,
            _EVERYWHERE,
        ),
        out_specs=out_specs,
        check_vma=False,
    )
    return (
        # It runs once: without optimization it is compiled in a third of the time.
        jax.jit(start, compiler_options={"xla_backend_optimization_level": 0}),
        # Explicit, since XLA calls an axis of one device unsharded, and a state that
        # comes back with another sharding would be compiled for again.
        jax.jit(
            divided,
            donate_argnums=0,
            out_shardings=tuple(NamedSharding(mesh, spec) for spec in out_specs),
            compiler_options=target.compiler_options,
        ),
    )


def give_back_freed() -> None:
    """Returns freed memory that malloc keeps to the system.

    Only glibc can, which JAX's packages for Linux need.

    The compiler frees hundreds of MB in pieces that are too small for a program's
    arrays, which would otherwise come on top of them.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
