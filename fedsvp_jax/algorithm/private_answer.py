"""What a client answers to the private query: the gradient, noised."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from fedsvp_jax import mechanisms
from fedsvp_jax.algorithm import private_query
from fedsvp_jax.algorithm.task import Task
from fedsvp_jax.structs import Array, MechanismState, NoiseInfo, Params, Rows


def answer(
    task: Task,
    private: Array,
    send: Callable[..., tuple[Params, MechanismState, NoiseInfo]],
    holds: Array,
) -> tuple[list[Array], MechanismState, NoiseInfo]:
    """The noised private query at the broadcast model.

    Args:
      private: (m,) bool: which of the client's rows are P.
      send: `add_noise` with all but the update, the count and the broadcast model.
      holds: () bool: whether there is anything to hide. A client without private
        records, or one that is not asked yet, answers 0.

    Returns:
      As `add_noise`.
    """
    assert task.plan.asked is not None
    holds = holds & (task.at.round_num >= task.cell.mechanism.private_from)
    noised, memory, info = send(
        gradient(task, private),
        num_examples=jnp.sum(private),
        params=private_query.chosen(task.state.params, task.plan.asked),
    )
    noised, info = only_if(holds, noised, info)
    return noised, memory, info


def gradient(task: Task, private: Array) -> list[Array]:
    """The private query's answer before its noise, at the broadcast model."""
    assert task.plan.asked is not None
    return private_query.mean_clipped_gradient(
        task.model,
        task.broadcast,
        Rows(task.examples, task.held.train, private),
        l2_norm_clip=task.cell.mechanism.private_clip,
        asked=task.plan.asked,
        lane_axes=task.at.lane_axes,
    )


def only_if(
    holds: Array, noised: list[Array], info: NoiseInfo
) -> tuple[list[Array], NoiseInfo]:
    """The noised answer and what it says of itself, or 0, which tells nothing."""
    nothing = [jnp.zeros_like(leaf) for leaf in noised], mechanisms.nothing_private()
    return jax.tree.map(partial(jnp.where, holds), (noised, info), nothing)
