"""Which clients take part in a round. Traceable: runs under jit and vmap."""

import jax
import jax.numpy as jnp

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.structs import Array

NOBODY = -1  # a place in the cohort that no client fills


def may_take_part(
    allowance: Allowance,
    spent: Array,
    round_num: Array | int,
    *,
    admitted: Array | bool = True,
) -> Array:
    """(M,) bool: whose upload of this round keeps the promise.

    Nobody's does where fewer are left than the promise needs in a round.

    Args:
      allowance: what the uploads cost, and the budget.
      spent: (M,) int32: the cost of each client's uploads so far.
      round_num: () int32, from 0.
      admitted: (M,) bool: whom the influence filter does not reject.
    """
    able = admitted & (spent + allowance.costs[round_num] <= allowance.budget)
    return able & (able.sum() >= allowance.least_cohort)


def sample_cohort(
    key: Array,
    num_clients: int,
    cohort_size: int,
    *,
    eligible: Array | None = None,
) -> Array:
    """A uniform draw of `cohort_size` of the eligible clients, without replacement.

    Every subset of that size is equally likely (FedAvg, arXiv 1602.05629, alg. 1).
    The clients are put in random order and the first eligible ones are taken.

    Args:
      key: the round's key of `Stream.COHORT`.
      num_clients: M, a Python int.
      cohort_size: K in [1, M], a Python int.
      eligible: (M,) bool; None lets every client take part.

    Returns:
      (K,) int32 client ids, ascending. Where fewer than K clients are eligible, all
      of them are there and the places that are left, at the end, hold -1.

    Raises:
      ValueError: cohort_size is out of its range.
    """
    if not 1 <= cohort_size <= num_clients:
        raise ValueError(
            f"cohort_size must be in [1, {num_clients}], got {cohort_size}"
        )
    order = jax.random.permutation(key, jnp.arange(num_clients, dtype=jnp.int32))
    if eligible is None:
        return jnp.sort(order[:cohort_size])
    ineligible_last = jnp.argsort(~eligible[order], stable=True)
    chosen = order[ineligible_last][:cohort_size]
    chosen = jnp.sort(jnp.where(eligible[chosen], chosen, jnp.int32(num_clients)))
    return jnp.where(chosen < num_clients, chosen, jnp.int32(NOBODY))
