"""One round as a pure function, for a loop of one's own."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

import flax.struct
import jax
import jax.numpy as jnp

from fedsvp_jax import federation
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.losses import ExampleLoss
from fedsvp_jax.core.structs import Array, Model
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.devices import lanes
from fedsvp_jax.round.federated_round import federated_round
from fedsvp_jax.round.state import (
    Aggregator,
    Cell,
    Data,
    RoundMetrics,
    ServerState,
    initial_state,
)


@flax.struct.dataclass
class RoundState:
    """The state that a round hands to the next: a pytree.

    Attributes:
      server: the model (`server.params`, `server.stats`) and the memory of mechanism
        and optimiser.
      cell: each client's examples, the keys, and the traced settings.
      round_num: () int32, rounds done so far.
    """

    server: ServerState
    cell: Cell
    round_num: Array


Step = Callable[[RoundState], tuple[RoundState, RoundMetrics]]


def make_round(
    config: ResolvedConfig,
    data: Dataset,
    *,
    model: Model | None = None,
    loss: ExampleLoss | None = None,
    aggregator: Aggregator | None = None,
    seeds: Sequence[int] | None = None,
) -> tuple[RoundState, Step]:
    """The state before round 0, and the pure function of one round.

    `step` is compiled already; `jax.jit`, `jax.lax.scan` and `jax.vmap` take it too,
    and the state may be changed in between. Nothing is written or counted: the ε of a
    loop of one's own is not known to an account. A state that nobody changed is that
    of `run.train` after as many rounds.

    Args:
      config: resolved settings.
      data: in memory.
      model: built by name when None.
      loss, aggregator: as in `run.train`.
      seeds: in place of the config's: every leaf of the state then has a leading axis,
        one entry per seed, and the step is for `jax.vmap(step)`.

    Returns:
      `(state, step)`, with `step(state) -> (state, metrics)`.

    Raises:
      ValueError: settings and data do not fit together.
    """
    configs = [dataclasses.replace(config, seed=seed) for seed in seeds or ()]
    program = federation.build(
        configs or [config],
        data,
        model=model,
        loss=loss,
        aggregator=aggregator,
    )
    run_data = Data(program.data.examples, program.data.test, program.data.validation)
    # A device's number is data, or the compiler computes with it (`devices.lanes`).
    index = jnp.int32(0)
    network, plan = program.model, program.plan

    @jax.jit
    def of_data(
        state: RoundState, run_data: Data, index: Array
    ) -> tuple[RoundState, RoundMetrics]:
        server, metrics = federated_round(
            network,
            plan,
            state.cell,
            state.server,
            run_data,
            round_num=state.round_num,
            devices=lanes.Devices(1, index),
        )
        return RoundState(server, state.cell, state.round_num + 1), metrics

    def step(state: RoundState) -> tuple[RoundState, RoundMetrics]:
        return of_data(state, run_data, index)

    start = partial(initial_state, network, plan, program.data.example)
    servers = jax.jit(lambda cells: jax.lax.map(start, cells))(program.cells)
    rounds = jnp.zeros(len(program.configs), jnp.int32)
    states = RoundState(servers, jax.tree.map(jnp.asarray, program.cells), rounds)
    if seeds is None:
        return cell_of(states, 0), step
    return states, step
