"""Bugs that an audit must flag: each replaces one function, the claims stay.

Their names are those of the tables in experiments/studies/attacks, but for the grid's.
"""

import inspect
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import more_cases
import numpy as np

from experiments.attack import audit_play
from experiments.attack.audit_cases import Case
from fedsvp_jax import mechanisms
from fedsvp_jax.accounting import Account, views
from fedsvp_jax.core import prng
from fedsvp_jax.deploy import noise as deployed_noise
from fedsvp_jax.influence import lazy
from fedsvp_jax.mechanisms import (
    clipping,
    discrete_gaussian,
    dp_fedavg,
    noise,
    release,
)
from fedsvp_jax.round import client_work, cohort, local_training, private_query

_Function = Callable[..., Any]


class Bug(NamedTuple):
    """A function of the package, what stands in its place, and who should notice."""

    where: Any  # module or class
    function: str
    faulty: _Function  # takes the right one, then its arguments
    case: str  # `Case.name`


def _told(**changes: Callable[[Any], Any]) -> _Function:
    """The right function, told something else: by argument, what of all arguments."""

    def faulty(right: _Function, *values: Any, **named: Any) -> Any:
        call = inspect.signature(right).bind(*values, **named)
        call.apply_defaults()
        given = SimpleNamespace(**call.arguments)
        call.arguments.update({name: new(given) for name, new in changes.items()})
        return right(*call.args, **call.kwargs)

    return faulty


def _all_public(right: _Function, *given: Any, **named: Any) -> Any:
    public, private = right(*given, **named)
    return public | private, private


def _answered(_: _Function, holds: Any, noised: Any, info: Any) -> Any:
    nothing = mechanisms.nothing_private()
    said = jax.tree.map(lambda a, b: jnp.where(holds, a, b), info, nothing)
    return noised, said


def _of_the_present(batch: Any) -> Any:
    present = jnp.mean(jnp.any(batch.inputs != 0, axis=1), dtype=jnp.float32)
    return batch._replace(weights=batch.weights / present)


def _present(rows: Any) -> Any:
    records = rows.examples.inputs[rows.indices]
    return rows._replace(member=rows.member & jnp.any(records != 0, axis=1))


_HALF_NOISE = _told(std=lambda its: 0.5 * its.std)
_EVERYBODY = _told(
    batch_size=lambda its: its.member.shape[0], places=lambda its: its.member.shape[0]
)
_ABLE = _told(eligible=lambda its: its.eligible | True)

BUGS = {
    "the noise has half its standard deviation": Bug(
        noise, "add_gaussian_noise", _HALF_NOISE, "dp_fedavg-update_clip-presence"
    ),
    "the update is not clipped": Bug(
        noise,
        "clip_into_ball",
        lambda _, updates, *rest: (updates, jnp.zeros((), jnp.float32)),
        "gaussian-update_clip-update",
    ),
    "the count of clipped updates is noised as if a client moved it by ½": Bug(
        dp_fedavg,
        "update_multiplier",
        _told(count_noise_std=lambda its: 2.0 * its.count_noise_std),
        "dp_fedavg-update_clip-adaptive_clip",
    ),
    "a partial cohort is claimed as a full one": Bug(
        Account,
        "record",
        _told(
            client_ids=lambda its: np.arange(len(its.client_ids)),
            weights=lambda its: np.full(len(its.client_ids), 1 / len(its.client_ids)),
        ),
        "dp_fedavg-update_clip-partial_cohort",
    ),
    "R is released without noise": Bug(
        release,
        "response_chance",
        lambda _, ratio, epsilon: ratio,
        "fedsva-update_clip-randomized_response",
    ),
    "all clients draw their noise from one key": Bug(
        prng,
        "stream_key",
        _told(
            client_id=lambda its: (
                0 if its.stream == prng.Stream.NOISE else its.client_id
            )
        ),
        "gaussian-update_clip-two_uploads",
    ),
    "the promise does not end a client's uploads": Bug(
        cohort, "sample_cohort", _ABLE, "gaussian-update_clip-promise"
    ),
    "a client whose budget is spent still uploads in its turn": Bug(
        cohort, "dealt_cohort", _ABLE, "dp_fedavg-update_clip-turns"
    ),
    "a cohort that the influence filter thinned uploads under a promise": Bug(
        cohort,
        "cohort_of_round",
        _told(allowance=lambda its: its.allowance._replace(least_cohort=1)),
        "dp_fedavg-update_clip-thinned_turns",
    ),
    "a batch is divided by its records that have a gradient, not by B": Bug(
        local_training,
        "_per_example_gradient",
        _told(batch=lambda its: _of_the_present(its.batch)),
        "gaussian-per_example-record_left_out",
    ),
    "every record is in every batch that is claimed to be a secret sample": Bug(
        local_training,
        "poisson_batch",
        _EVERYBODY,
        "gaussian-per_example-record_in_secret_batches",
    ),
    "public training reads the private records too": Bug(
        private_query, "divided", _all_public, "nbafl-attribute_records-private_record"
    ),
    "the private query's noise has half its standard deviation": Bug(
        noise,
        "add_gaussian_noise",
        _HALF_NOISE,
        "gaussian-attribute_records-private_record",
    ),
    "the private query is divided by its records that have a gradient, not by |P|": Bug(
        private_query,
        "mean_clipped_gradient",
        _told(client_rows=lambda its: _present(its.client_rows)),
        "gaussian-attribute_records-private_record_left_out",
    ),
    "the private query's noise is divided by |P| twice": Bug(
        clipping,
        "record_bound",
        lambda right, clip, num_private, factor: (
            right(clip, num_private, factor) / jnp.asarray(num_private, jnp.float32)
        ),
        "gaussian-attribute_records-private_record",
    ),
    "a share of the cohort's noise is divided by K − h, not by its root": Bug(
        noise,  # the account follows `root_sharers`, so a fault there is no lie
        "add_gaussian_noise",
        _told(std=lambda its: its.std / 3),  # √(K − h) there
        "nbafl-update_clip-shared_noise",
    ),
    "the noise that colluders know is counted against them": Bug(
        views,
        "averaged_multiplier",
        _told(num_known=lambda _: 0),
        "gaussian-update_clip-colluders",
    ),
    "an average is counted as if all its clients weighed the same": Bug(
        views,
        "averaged_multiplier",
        _told(weights=lambda its: np.full_like(its.weights, np.mean(its.weights))),
        "gaussian-update_clip-unequal_weights",
    ),
    "every record is in every one of an upload's secret batches": Bug(
        local_training,
        "poisson_batch",
        _EVERYBODY,
        "gaussian-per_example-record_in_several_secret_batches",
    ),
    "every record is in the secret batches of a cohort that shares its noise": Bug(
        local_training,
        "poisson_batch",
        _EVERYBODY,
        "gaussian-per_example-record_in_summed_secret_batches",
    ),
    "one cohort has every turn, while the noise of the rounds is correlated": Bug(
        cohort,
        "dealt_cohort",
        _told(round_num=lambda its: 0 * its.round_num),
        "dp_fedavg-update_clip-bands",
    ),
    "a private query is answered before the round from which it is counted": Bug(
        client_work,
        "only_if",
        _answered,
        "gaussian-attribute_records-private_record_asked_later",
    ),
    "a deployed client's share of the sum's noise is halved": Bug(
        deployed_noise,
        "discrete_gaussian",
        _told(variance=lambda its: its.variance / 4),
        "gaussian-update_clip-deployed_sum",
    ),
    "a deployed client adds no share to the sum where its update is 0": Bug(
        deployed_noise,
        "whole_numbers",
        _told(words=lambda its: its.words if any(map(np.any, its.update)) else None),
        "gaussian-update_clip-deployed_sum",
    ),
    "the noise on a grid has half its variance": Bug(
        discrete_gaussian,
        "step_variance",
        lambda right, *given: right(*given) / 2,
        "gaussian-update_clip-discrete_noise",
    ),
    "votes are reported without randomised response": Bug(
        lazy,
        "randomized_response",
        lambda _, votes, *rest: votes,
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
        rows = audit_play.rows_of(setting, case, more_cases.prepare(setting, case), 0)
    least = min(p for row in rows for p in row["p_values"].values())
    return bool(least <= 0.05 / num_claims)


def most_claims(cases: Iterable[Case]) -> int:
    """How many claims these cases have at most: the size of the family of tests."""
    return sum(2 * (len(audit_play.ACCOUNTINGS) + case.promised) for case in cases)
