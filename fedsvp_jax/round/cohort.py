"""The cohort of a round: drawn, or in turn. Traceable: runs under jit and vmap."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedsvp_jax.accounting import Allowance
from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, iota

NOBODY = -1  # a place in the cohort that no client fills


def may_take_part(allowance: Allowance, spent: Array, round_num: Array | int) -> Array:
    """(M,) bool: the clients whose upload in this round stays within the budget.

    The last costs stand for all rounds after them.
    """
    last = jnp.minimum(round_num, len(allowance.costs) - 1)
    return spent + jnp.asarray(allowance.costs)[last] <= allowance.budget


def cohort_of_round(
    root: Array,
    allowance: Allowance,
    spent: Array,
    round_num: Array | int,
    *,
    cohort_size: int,
    cohorts: str,
    admitted: Array | bool = True,
) -> Array:
    """(K,) int32: the ids of a round's clients, ascending, then `NOBODY`.

    A cohort of fewer clients than `allowance.least_cohort` does not upload at all: a
    promise about a cohort's sum rests on the noise of a full one. It does not matter
    whether spent budgets or the influence filter made it smaller.

    Args:
      root: the run's root key.
      spent: (M,) int32: the cost of each client's uploads so far.
      cohorts: drawn or cyclic.
      admitted: (M,) bool: the clients that the influence filter does not reject.
    """
    eligible = admitted & may_take_part(allowance, spent, round_num)
    if cohorts == "cyclic":
        key = prng.stream_key(root, prng.Stream.COHORT)
        chosen = dealt_cohort(key, round_num, eligible, cohort_size)
    else:
        key = prng.stream_key(prng.round_key(root, round_num), prng.Stream.COHORT)
        chosen = sample_cohort(key, eligible, cohort_size)
    enough = jnp.sum(chosen >= 0) >= allowance.least_cohort
    return jnp.where(enough, chosen, jnp.int32(NOBODY))


def is_over(
    of_round: Callable[[Array], Array], round_num: Array | int, turns: int
) -> Array:
    """() bool: whether nobody takes part from a round on, however long the run.

    Costs never fall, so an empty draw stays empty. Of cyclic cohorts, each must be
    empty in its turn.

    Args:
      of_round: `cohort_of_round`, of settings, the seed and the filter's verdict, all
        of them public.
      turns: cohorts that take turns; 1 where each is drawn.
    """
    later = round_num + iota(turns)
    return ~jnp.any(jax.vmap(of_round)(later) >= 0)


def dealt_cohort(
    key: Array, round_num: Array | int, eligible: Array, cohort_size: int
) -> Array:
    """The cohort whose turn it is, one of M/K cohorts that were dealt once.

    Two uploads of a client are M/K rounds apart, whoever is eligible. `eligible`, (M,)
    bool: the places of all other clients stay empty. The key is the same in all rounds.
    """
    num_clients = len(eligible)
    order = jax.random.permutation(key, iota(num_clients))
    turns = jnp.int32(num_clients // cohort_size)
    turn = jnp.int32(round_num) % turns
    chosen = jax.lax.dynamic_slice_in_dim(order, turn * cohort_size, cohort_size)
    return _ascending(chosen, eligible)


def _ascending(chosen: Array, eligible: Array) -> Array:
    """The eligible clients among `chosen`, ascending, then NOBODY."""
    last = len(eligible)
    ids = jnp.sort(jnp.where(eligible[chosen], chosen, jnp.int32(last)))
    return jnp.where(ids < last, ids, jnp.int32(NOBODY))


def sample_cohort(key: Array, eligible: Array, cohort_size: int) -> Array:
    """A uniform draw of K of the eligible clients, or all if they are fewer.

    Every subset of that size is equally likely (FedAvg, arXiv 1602.05629, alg. 1).
    The clients are put in random order and the first eligible ones, (M,) bool, are
    taken. (K,) int32: their ids, ascending, and then NOBODY in every place that is
    left.
    """
    order = jax.random.permutation(key, iota(len(eligible)))
    order = order[jnp.argsort(~eligible[order], stable=True)]
    return _ascending(order[:cohort_size], eligible)
