"""What a client answers to the private query: the gradient, noised."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from fedsvp_jax import mechanisms
from fedsvp_jax.algorithm import private_query
from fedsvp_jax.algorithm.state import Cell, RoundPlan, ServerState
from fedsvp_jax.structs import Array, Examples, MechanismState, Model, NoiseInfo, Params


def answer(
    send: Callable[..., tuple[Params, MechanismState, NoiseInfo]],
    model: Model,
    plan: RoundPlan,
    cell: Cell,
    state: ServerState,
    examples: Examples,
    rows: Array,
    private: Array,
    *,
    holds: Array,
    lane_axes: tuple[str, ...],
) -> tuple[list[Array], MechanismState, NoiseInfo]:
    """The noised private query at the broadcast model.

    Args:
      send: `add_noise` with all but the update, the count and the broadcast model.
      rows: (m,) rows of `examples` that the client holds.
      private: (m,) bool: which of them are P.
      holds: () bool: whether there is anything to hide. A client without private
        records, or one that is not asked yet, answers 0.

    Returns:
      As `add_noise`.
    """
    assert plan.asked is not None
    gradient = private_query.mean_clipped_gradient(
        model,
        state.params,
        state.stats,
        examples,
        rows,
        private,
        l2_norm_clip=cell.mechanism.private_clip,
        asked=plan.asked,
        lane_axes=lane_axes,
    )
    noised, memory, info = send(
        gradient,
        num_examples=jnp.sum(private),
        params=private_query.chosen(state.params, plan.asked),
    )
    noised, info = jax.tree.map(
        partial(jnp.where, holds),
        (noised, info),
        ([jnp.zeros_like(leaf) for leaf in noised], mechanisms.nothing_private()),
    )
    return noised, memory, info
