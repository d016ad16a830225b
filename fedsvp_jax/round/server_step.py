"""The server's step: its optimiser, then the mechanism's own part.

A round without clients leaves the model, and what the server remembers, as they are.
"""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import optax

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, MechanismState, NoiseInfo, Params
from fedsvp_jax.core.tree import where
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.round.state import ServerState


def server_step(
    mechanism: Mechanism,
    state: ServerState,
    update: Params,
    stats: Params,
    *,
    optimize: Callable[[Params], tuple[Params, optax.OptState | None]],
    memory: MechanismState,
    infos: NoiseInfo,
    valid: Array,
    key: prng.Keys,
    round_num: Array,
) -> ServerState:
    """The state with the next model, and with what the server remembers.

    Args:
      update: of the aggregator.
      stats: averaged.
      optimize: an average of uploads -> what is added, and the optimiser's memory
        after it.
      memory: the mechanism's, after the cohort's uploads.
      infos: what the noise of each place was, leaves (K,).
      valid: (K,) bool: whether a client filled the place.
      key: of the round.
    """
    anyone = jnp.any(valid)
    step, optimizer = optimize(update)
    params = optax.apply_updates(state.params, step)
    stats = where(anyone, stats, state.stats)
    if mechanism.server is not None:
        served = mechanism.server(
            params,
            state.params,
            memory,
            key=prng.stream_key(key, prng.Stream.SERVER_NOISE),
            round_num=round_num,
            infos=infos,
            valid=valid,
        )
        params, memory = where(anyone, served, (params, memory))
    return dataclasses.replace(
        state, params=params, stats=stats, mechanism=memory, optimizer=optimizer
    )
