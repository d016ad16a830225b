"""Bugs that an audit must flag: each replaces one function, the claims stay.

Their names are those of the table in docs/results/attacks.md.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from experiments.attack import audit_claims, audit_play
from experiments.attack.audit_cases import PROMISED, Case
from fedsvp_jax import mechanisms, prng
from fedsvp_jax.accounting import Account, views
from fedsvp_jax.algorithm import client, cohort, local_training, private_query
from fedsvp_jax.baselines import dp_fedavg
from fedsvp_jax.deploy import noise as deployed_noise
from fedsvp_jax.influence import lazy
from fedsvp_jax.mechanisms import noise, release, sensitivity
from fedsvp_jax.run import early_stopping

_Function = Callable[..., Any]


class Bug(NamedTuple):
    """A function of the package, what stands in its place, and who should notice."""

    where: Any  # module or class
    function: str
    faulty: _Function  # takes the right one, then its arguments
    case: str  # `Case.name`


def _half_noise(right: _Function, tree: Any, std: Any, *, key: Any) -> Any:
    return right(tree, 0.5 * std, key=key)


def _full_cohort(
    right: _Function, before: Account, client_ids: Any, noise: Any, weights: Any
) -> Account:
    planned = len(client_ids)
    whole = np.full(planned, 1 / planned)
    return right(before, np.arange(planned), noise, whole)


def _one_noise_key(
    right: _Function, key: Any, stream: prng.Stream, client_id: Any = 0
) -> Any:
    return right(key, stream, 0 if stream == prng.Stream.NOISE else client_id)


def _thin_cohorts(
    right: _Function, root: Any, allowance: Any, *rest: Any, **how: Any
) -> Any:
    return right(root, allowance._replace(least_cohort=1), *rest, **how)


def _everybody(right: _Function, key: Any, member: Any, **_: int) -> Any:
    count = member.shape[0]
    return right(key, member, batch_size=count, places=count)


def _all_public(right: _Function, attributes: Any, num_rows: Any, **given: Any) -> Any:
    public, private = right(attributes, num_rows, **given)
    return public | private, private


def _divided_twice(right: _Function, clip: Any, num_private: Any, factor: float) -> Any:
    once = right(clip, num_private, factor)
    return once / jnp.asarray(num_private, jnp.float32)


def _batch_of_the_present(
    right: _Function,
    loss: Any,
    now: Any,
    batch: Any,
    *rest: Any,
) -> Any:
    present = jnp.mean(jnp.any(batch.inputs != 0, axis=1), dtype=jnp.float32)
    return right(loss, now, batch._replace(weights=batch.weights / present), *rest)


def _query_of_the_present(
    right: _Function,
    model: Any,
    broadcast: Any,
    held: Any,
    **named: Any,
) -> Any:
    records = held.examples.inputs[held.indices]
    present = held.member & jnp.any(records != 0, axis=1)
    return right(model, broadcast, held._replace(member=present), **named)


def _equal_weights(
    right: _Function, multiplier: Any, std: Any, weights: Any, known: Any
) -> Any:
    return right(multiplier, std, np.full_like(weights, np.mean(weights)), known)


def _answered(_: _Function, holds: Any, noised: Any, info: Any) -> Any:
    nothing = mechanisms.nothing_private()
    said = jax.tree.map(lambda a, b: jnp.where(holds, a, b), info, nothing)
    return noised, said


def _no_empty_share(
    right: _Function, update: Any, grid: Any, std: float, words: Any
) -> Any:
    empty = not any(np.any(leaf) for leaf in update)
    return right(update, grid, std, None if empty else words)


BUGS = {
    "the noise has half its standard deviation": Bug(
        noise, "add_gaussian_noise", _half_noise, "dp_fedavg-update_clip-presence"
    ),
    "the update is not clipped": Bug(
        sensitivity,
        "clip_update",
        lambda _, updates, params, bound: (updates, jnp.zeros((), jnp.float32)),
        "gaussian-update_clip-update",
    ),
    "the count of clipped updates is noised as if a client moved it by ½ (G4)": Bug(
        dp_fedavg,
        "update_multiplier",
        lambda right, multiplier, count_std: right(multiplier, 2.0 * count_std),
        "dp_fedavg-update_clip-adaptive_clip",
    ),
    "a partial cohort is claimed as a full one (G7)": Bug(
        Account, "record", _full_cohort, "dp_fedavg-update_clip-partial_cohort"
    ),
    "R is released without noise": Bug(
        release,
        "response_chance",
        lambda _, ratio, epsilon: ratio,
        "fedsva-update_clip-randomized_response",
    ),
    "all clients draw their noise from one key": Bug(
        prng, "stream_key", _one_noise_key, "gaussian-update_clip-two_uploads"
    ),
    "the promise does not end a client's uploads": Bug(
        cohort,
        "sample_cohort",
        lambda right, key, eligible, size: right(key, eligible | True, size),
        "gaussian-update_clip-promise",
    ),
    "a client whose budget is spent still uploads in its turn": Bug(
        cohort,
        "dealt_cohort",
        lambda right, key, turn, able, size: right(key, turn, able | True, size),
        "dp_fedavg-update_clip-turns",
    ),
    "a cohort that the influence filter thinned uploads under a promise (N2)": Bug(
        cohort, "cohort_of_round", _thin_cohorts, "dp_fedavg-update_clip-thinned_turns"
    ),
    "a hook that may end the run is given un-noised numbers (N3)": Bug(
        early_stopping,
        "shown",
        lambda _, row, reveal=(): row,
        "gaussian-update_clip-early_end",
    ),
    "a batch is divided by its records that have a gradient, not by B": Bug(
        local_training,
        "_per_example_gradient",
        _batch_of_the_present,
        "gaussian-per_example-record_left_out",
    ),
    "every record is in every batch that is claimed to be a secret sample": Bug(
        local_training,
        "poisson_batch",
        _everybody,
        "gaussian-per_example-record_in_secret_batches",
    ),
    "public training reads the private records too": Bug(
        private_query, "divided", _all_public, "nbafl-attribute_records-private_record"
    ),
    "the private query's noise has half its standard deviation": Bug(
        noise,
        "add_gaussian_noise",
        _half_noise,
        "gaussian-attribute_records-private_record",
    ),
    "the private query is divided by its records that have a gradient, not by |P|": Bug(
        private_query,
        "mean_clipped_gradient",
        _query_of_the_present,
        "gaussian-attribute_records-private_record_left_out",
    ),
    "the private query's noise is divided by |P| twice": Bug(
        sensitivity,
        "record_bound",
        _divided_twice,
        "gaussian-attribute_records-private_record",
    ),
    "a share of the cohort's noise is divided by K − h, not by its root": Bug(
        sensitivity,
        "root_sharers",
        lambda right, config: right(config) ** 2,
        "nbafl-update_clip-shared_noise",
    ),
    "the noise that colluders know is counted against them": Bug(
        views,
        "averaged_multiplier",
        lambda right, multiplier, std, weights, known: right(
            multiplier, std, weights, 0
        ),
        "gaussian-update_clip-colluders",
    ),
    "an average is counted as if all its clients weighed the same": Bug(
        views,
        "averaged_multiplier",
        _equal_weights,
        "gaussian-update_clip-unequal_weights",
    ),
    "every record is in every one of an upload's secret batches": Bug(
        local_training,
        "poisson_batch",
        _everybody,
        "gaussian-per_example-record_in_several_secret_batches",
    ),
    "every record is in the secret batches of a cohort that shares its noise": Bug(
        local_training,
        "poisson_batch",
        _everybody,
        "gaussian-per_example-record_in_summed_secret_batches",
    ),
    "one cohort has every turn, while the noise of the rounds is correlated": Bug(
        cohort,
        "dealt_cohort",
        lambda right, key, round_num, *rest: right(key, 0 * round_num, *rest),
        "dp_fedavg-update_clip-bands",
    ),
    "a private query is answered before the round from which it is counted": Bug(
        client,
        "only_if",
        _answered,
        "gaussian-attribute_records-private_record_asked_later",
    ),
    "a deployed client's share of the sum's noise is halved": Bug(
        deployed_noise,
        "discrete_gaussian",
        lambda right, variance, number, words: right(variance / 4, number, words),
        "nbafl-update_clip-deployed_sum",
    ),
    "a deployed client adds no share to the sum where its update is 0": Bug(
        deployed_noise,
        "whole_numbers",
        _no_empty_share,
        "nbafl-update_clip-deployed_sum",
    ),
    "votes are reported without randomised response": Bug(
        lazy,
        "randomized_response",
        lambda _, votes, flip_probability, key: votes,
        "influence_filter-votes-votes",
    ),
}


def is_flagged(
    setting: audit_play.Setting, case: Case, bug: Bug, num_claims: int
) -> bool:
    """Whether a claim of the case is contradicted at .05 / `num_claims`.

    With the number of all claims of a whole audit, Holm's test flags it there too,
    whatever the other cases show.
    """
    right = getattr(bug.where, bug.function)

    def faulty(*arguments: Any, **named: Any) -> Any:  # a method too, which binds
        return bug.faulty(right, *arguments, **named)

    with mock.patch.object(bug.where, bug.function, faulty):
        rows = audit_play.rows_of(setting, case, audit_play.prepare(setting, case), 0)
    least = min(p for row in rows for p in row["p_values"].values())
    return bool(least <= 0.05 / num_claims)


def most_claims(cases: Iterable[Case]) -> int:
    """How many claims these cases have at most: the size of the family of tests."""
    return sum(
        2 * (len(audit_claims.ACCOUNTINGS) + (case.worlds in PROMISED))
        for case in cases
    )
