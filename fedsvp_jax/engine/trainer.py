"""Many rounds of one run, or of a sweep's cells side by side, as one program."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from fedsvp_jax import models, prng
from fedsvp_jax.accounting import Ledger, promises
from fedsvp_jax.algorithm.federated_round import federated_round
from fedsvp_jax.algorithm.state import Cell, RoundMetrics, ServerState, initial_state
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data import preprocessing
from fedsvp_jax.data.client_store import ClientStore
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.devices import lanes, processes
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.federation import federated_data, plan
from fedsvp_jax.federation.cohort_stream import Cohort, CohortStream
from fedsvp_jax.influence import Verdict
from fedsvp_jax.influence.admission import Admission
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.structs import Array, Examples, Model
from fedsvp_jax.tree import cell_of


class Trainer:
    """The compiled rounds of some cells that share a program.

    Args:
      configs: one resolved config a cell; they differ only in what does not
        change the program (epsilon, delta, C, beta, learning rate, seed, ...).
      dataset: the data of all cells; a store is streamed, to one cell.
      model: the `(init, apply)` pair; built by name from the config when None.
      placement: where and in which portions the work runs.
    """

    def __init__(
        self,
        configs: Sequence[ExperimentConfig],
        dataset: Dataset | ClientStore,
        *,
        model: Model | None = None,
        placement: Placement | None = None,
    ) -> None:
        first = configs[0]
        placement = placement or Placement()
        if len(configs) % placement.sweep_devices:
            raise ValueError(
                f"sweep_devices must divide the {len(configs)} cells of mechanism "
                f"{first.mechanism}, got {placement.sweep_devices}"
            )
        self.configs = tuple(configs)
        self.placement = placement
        self._mesh = placement.mesh()
        self.model = model or models.make_model(
            first.model, num_classes=dataset.num_classes
        )
        self.federation = federated_data.build(configs, dataset)
        self.admission: Admission | None = None
        if first.influence_filter != "none":
            if model is not None:
                raise ValueError(
                    "influence_filter must be none for a model that is not built by "
                    f"name, got {first.influence_filter}"
                )
            assert self.federation.warmup is not None
            self.admission = Admission(
                first,
                self.federation.examples,
                cell_of(self.federation.split, 0),
                self.federation.warmup,
                num_classes=self.federation.num_classes,
                build=lambda count: models.make_model(first.model, num_classes=count),
                batch_size=first.batch_size,
                learning_rate=first.learning_rate,
                num_rounds=first.num_rounds,
                root=prng.root_key(first.seed),
            )
        self.plan = plan.make_plan(first, self.federation)
        self.mechanism_configs = tuple(
            plan.mechanism_config(config, self.federation) for config in configs
        )
        caps = [
            promises.upload_cap(config, settings)
            for config, settings in zip(configs, self.mechanism_configs, strict=True)
        ]
        self._start_cells = plan.make_cells(
            configs, self.federation, self.mechanism_configs, caps
        )
        self._stream: CohortStream | None = None
        self._rounds_in_program = placement.rounds_per_call
        if self.federation.stored is not None:
            self._rounds_in_program = 1  # each round brings its cohort
            self._stream = CohortStream(
                *self.federation.stored,
                root=self._start_cells.root[0],
                num_rounds=first.num_rounds,
                max_uploads=None if caps[0] == promises.NO_CAP else caps[0],
            )
        self._example = preprocessing.normalize(self.federation.examples.inputs[:1])
        by_cell = NamedSharding(self._mesh, PartitionSpec(lanes.SWEEP_AXIS))
        by_round = NamedSharding(self._mesh, PartitionSpec(None, lanes.SWEEP_AXIS))
        by_client = NamedSharding(self._mesh, PartitionSpec(lanes.CLIENT_AXIS))
        everywhere = NamedSharding(self._mesh, PartitionSpec())
        # Placed once: jit would copy to every device in every call.
        self.cells = processes.place(self._start_cells, by_cell)
        self._data = processes.place(
            (self.federation.examples, self.federation.test), everywhere
        )
        self._device_index = processes.place(
            np.arange(placement.num_devices, dtype=np.int32), by_client
        )
        # Named, since XLA calls an axis of one device unsharded and a state that
        # comes back otherwise than it went in is compiled for again.
        self._compiled: Any = jax.jit(
            self._rounds(), donate_argnums=0, out_shardings=(by_cell, by_round)
        )

    def initial_state(self) -> ServerState:
        """The cells' states before round 0, stacked."""
        start = partial(initial_state, self.model, self.plan, self._example)
        states = jax.jit(lambda cells: jax.lax.map(start, cells))(self._start_cells)
        return self.place(states)

    def new_ledger(self, mechanism: Mechanism) -> Ledger:
        """An empty ledger for one cell."""
        _, stats = jax.eval_shape(self.model.init, jax.random.key(0), self._example)
        return promises.new_ledger(
            mechanism, self.plan.num_clients, keeps_stats=bool(jax.tree.leaves(stats))
        )

    def place(self, state: ServerState) -> ServerState:
        """Puts a state (a restored one, say) where the compiled rounds want it."""
        by_cell = NamedSharding(self._mesh, PartitionSpec(lanes.SWEEP_AXIS))
        return processes.place(state, by_cell)

    def admit(self, state: ServerState, done: int) -> tuple[ServerState, Verdict]:
        """Passes the filter over all clients: the state with who may take part."""
        assert self.admission is not None
        host = processes.to_host(state)
        params, stats = cell_of((host.params, host.stats), 0)
        verdict = jax.device_get(self.admission.decide(params, stats, done))
        admitted = dataclasses.replace(host, admitted=~verdict.rejected[None])
        return self.place(admitted), verdict

    def advance(
        self,
        state: ServerState,
        first_round: int,
        num_rounds: int,
        *,
        examples: Examples | None = None,
    ) -> tuple[ServerState, RoundMetrics]:
        """Runs rounds `first_round`, ... and returns the state and host metrics.

        Args:
          state: consumed (its buffers are donated).
          first_round: rounds done so far.
          num_rounds: at most `placement.rounds_per_call`.
          examples: in place of the federation's, say with an attacker's own among
            them; of one shape in all calls. Not for a store.

        Returns:
          `(state, metrics)`, metrics as numpy with the axes (num_rounds, cells).
        """
        if self._stream is None:
            data = self._data[0] if examples is None else examples
            return self._run(state, self.cells, data, first_round, num_rounds)
        found = []
        for round_num in range(first_round, first_round + num_rounds):
            cohort = self._stream.take(round_num, processes.to_host(state.uploads)[0])
            cells, examples = self._with_cohort(cohort)
            state, metrics = self._run(state, cells, examples, round_num, 1)
            found.append(metrics)
        return state, jax.tree.map(lambda *rows: np.concatenate(rows), *found)

    def _run(
        self,
        state: ServerState,
        cells: Cell,
        examples: Examples,
        first_round: int,
        num_rounds: int,
    ) -> tuple[ServerState, RoundMetrics]:
        state, metrics = self._compiled(
            state,
            cells,
            examples,
            self._data[1],
            self._device_index,
            jnp.int32(first_round),
            jnp.int32(num_rounds),
        )
        host = processes.to_host(metrics)
        return state, jax.tree.map(lambda leaf: leaf[:num_rounds], host)

    def _with_cohort(self, cohort: Cohort) -> tuple[Cell, Examples]:
        """The one cell with a round's cohort in place of everybody, and its data."""
        by_cell = NamedSharding(self._mesh, PartitionSpec(lanes.SWEEP_AXIS))
        everywhere = NamedSharding(self._mesh, PartitionSpec())
        split, clients = processes.place(
            jax.tree.map(lambda leaf: leaf[None], (cohort.split, cohort.clients)),
            by_cell,
        )
        cells = dataclasses.replace(self.cells, split=split, cohort=clients)
        return cells, processes.place(cohort.examples, everywhere)

    def num_compilations(self) -> int:
        """How often `advance` was compiled: once, unless shapes changed."""
        return self._compiled._cache_size()

    def lower(self) -> jax.stages.Lowered:
        """The program that `advance` runs, lowered: for tests of its arithmetic."""
        return self._compiled.lower(
            self.initial_state(),
            self.cells,
            *self._data,
            self._device_index,
            jnp.int32(0),
            jnp.int32(1),
        )

    def _rounds(self) -> Callable[..., tuple[ServerState, RoundMetrics]]:
        model, plan, placement = self.model, self.plan, self.placement

        def run_cells(
            state: ServerState,
            cells: Cell,
            examples: Examples,
            test: Examples,
            devices: lanes.Devices,
            round_num: Array,
        ) -> tuple[ServerState, RoundMetrics]:
            num_cells = cells.root.shape[0]
            chunk = min(placement.cell_chunk_size, num_cells)

            def one(
                state: ServerState, cell: Cell, outer_axes: tuple[str, ...] = ()
            ) -> tuple[ServerState, RoundMetrics]:
                return federated_round(
                    model,
                    plan,
                    cell,
                    state,
                    examples,
                    test,
                    round_num=round_num,
                    devices=devices,
                    outer_axes=outer_axes,
                )

            if chunk == 1:
                return jax.lax.map(lambda pair: one(*pair), (state, cells))
            side_by_side = jax.vmap(
                partial(one, outer_axes=(lanes.CELL,)), axis_name=lanes.CELL
            )
            if chunk == num_cells:
                return side_by_side(state, cells)
            grouped = jax.tree.map(
                lambda leaf: leaf.reshape(-1, chunk, *leaf.shape[1:]), (state, cells)
            )
            results = jax.lax.map(lambda pair: side_by_side(*pair), grouped)
            return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), results)

        def rounds(
            state: ServerState,
            cells: Cell,
            examples: Examples,
            test: Examples,
            device_index: Array,
            first_round: Array,
            num_rounds: Array,
        ) -> tuple[ServerState, RoundMetrics]:
            devices = lanes.Devices(placement.num_devices, device_index[0])
            shapes = jax.eval_shape(
                lambda state, cells: run_cells(
                    state, cells, examples, test, devices, first_round
                ),
                state,
                cells,
            )[1]
            buffers = jax.tree.map(
                lambda s: jnp.zeros((self._rounds_in_program, *s.shape), s.dtype),
                shapes,
            )

            def step(
                index: Array, carry: tuple[ServerState, RoundMetrics]
            ) -> tuple[ServerState, RoundMetrics]:
                state, rows = run_cells(
                    carry[0], cells, examples, test, devices, first_round + index
                )
                return state, jax.tree.map(
                    lambda buffer, row: buffer.at[index].set(row), carry[1], rows
                )

            return jax.lax.fori_loop(0, num_rounds, step, (state, buffers))

        by_cell = PartitionSpec(lanes.SWEEP_AXIS)
        everywhere = PartitionSpec()
        return jax.shard_map(
            rounds,
            mesh=self._mesh,
            in_specs=(
                by_cell,
                by_cell,
                everywhere,
                everywhere,
                PartitionSpec(lanes.CLIENT_AXIS),
                everywhere,
                everywhere,
            ),
            out_specs=(by_cell, PartitionSpec(None, lanes.SWEEP_AXIS)),
            check_vma=False,
        )
