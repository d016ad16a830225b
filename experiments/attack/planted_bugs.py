"""Planted bugs: how often the audit flags code that does not keep its ε.

A bug replaces one function of the package by a faulty one, while the claims stay what
they are. The case of the audit that should see it is then played with --bug_seeds
seeds, --audit_trials games in each world. A seed flags the bug if a claim of the case
is contradicted at .05 divided by the number of all claims of a whole audit: then Holm's
test flags it in the whole audit too, whatever the other cases show. The same case is
played without the bug, where nothing may be flagged.

    noise_halved    the Gaussian noise on an upload has half its standard deviation
    no_clip         the update is not clipped
    count           the adaptive clip's count is noised as if a client moved it by 1/2
    partial_cohort  the ε of a cohort with empty places is claimed as a full cohort's
    release         R is released without noise
    shared_key      all clients draw their noise from one key
    cap             the cohort sampler does not look at --total_epsilon
    batch_divisor   a batch is divided by the number of its records with a gradient
    trained_on_all  the public training reads the private records too
    query_noise     the private query's noise has half its standard deviation
    query_divisor   the private query is divided by the number of such records
    divided_twice   the private query's noise is divided by |P| twice
    sharers         a share of a cohort's noise is divided by K − h, not by its root
    colluders       the noise that colluders know is counted against them
    votes           votes are reported without randomised response

  python -m experiments.attack --attack=planted_bugs --output_dir=runs/bugs

Written to --output_dir: config.json, pieces/ (one file per finished bug, from which
--resume continues), results.json.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import jax.numpy as jnp
import numpy as np
from absl import flags
from tqdm import tqdm

from fedsvp_jax import prng
from fedsvp_jax.accounting import Ledger, ledger
from fedsvp_jax.algorithm import cohort, local_training, private_query
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.influence import lazy
from fedsvp_jax.mechanisms import dp_fedavg, noise, release, sensitivity
from fedsvp_jax.report.text_table import aligned, markdown
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, write_json

from .. import command
from . import audit, audit_play
from .audit_cases import Case
from .resumable import finished_or_made

DEFAULTS = audit.DEFAULTS
_LEVEL = 0.05


class Bug(NamedTuple):
    """A function of the package, what stands in its place, and who should notice."""

    where: Any  # module or class
    function: str
    faulty: Callable[[Callable[..., Any]], Callable[..., Any]]  # from the right one
    case: str  # `Case.name`
    says: str  # in words


def _half_noise(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tree, std, *, key: right(tree, 0.5 * std, key=key)


def _no_clip(right: Callable[..., Any]) -> Callable[..., Any]:
    del right
    return lambda updates, params, bound: (updates, jnp.zeros((), jnp.float32))


def _half_count(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda multiplier, count_std: right(multiplier, 2.0 * count_std)


def _full_cohort(right: Callable[..., Any]) -> Callable[..., Any]:
    def record(book: Ledger, client_ids: Any, **given: Any) -> None:
        planned = len(client_ids)
        right(
            book,
            np.arange(planned),
            **given | {"weights": np.full(planned, 1 / planned)},
        )

    return record


def _as_it_is(right: Callable[..., Any]) -> Callable[..., Any]:
    del right
    return lambda ratio, epsilon, *, key: ratio


def _one_noise_key(right: Callable[..., Any]) -> Callable[..., Any]:
    def stream_key(key: Any, stream: prng.Stream, client_id: Any = 0) -> Any:
        return right(key, stream, 0 if stream == prng.Stream.NOISE else client_id)

    return stream_key


def _no_cap(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda key, num_clients, size, *, eligible: right(key, num_clients, size)


def _plain_votes(right: Callable[..., Any]) -> Callable[..., Any]:
    del right
    return lambda votes, flip_probability, key: votes


def _all_public(right: Callable[..., Any]) -> Callable[..., Any]:
    def divided(attributes: Any, num_rows: Any, **given: Any) -> Any:
        public, private = right(attributes, num_rows, **given)
        return public | private, private

    return divided


def _divided_twice(right: Callable[..., Any]) -> Callable[..., Any]:
    def bound(clip: Any, num_private: Any, *, factor: float) -> Any:
        once = right(clip, num_private, factor=factor)
        return once / jnp.asarray(num_private, jnp.float32)

    return bound


def _batch_of_the_present(right: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(
        loss: Any,
        params: Any,
        stats: Any,
        inputs: Any,
        labels: Any,
        weights: Any,
        *rest: Any,
    ) -> Any:
        present = jnp.mean(jnp.any(inputs != 0, axis=1), dtype=jnp.float32)
        return right(loss, params, stats, inputs, labels, weights / present, *rest)

    return gradient


def _query_of_the_present(right: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(
        model: Any,
        params: Any,
        stats: Any,
        examples: Any,
        rows: Any,
        member: Any,
        **named: Any,
    ) -> Any:
        present = member & jnp.any(examples.inputs[rows] != 0, axis=1)
        return right(model, params, stats, examples, rows, present, **named)

    return gradient


def _nothing_known(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda multiplier, std, weights, known: right(multiplier, std, weights, 0)


def _too_many_sharers(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda config: right(config) ** 2


BUGS = {
    "noise_halved": Bug(
        noise,
        "add_gaussian_noise",
        _half_noise,
        "dp_fedavg-update_clip-presence",
        "the noise has half its standard deviation",
    ),
    "no_clip": Bug(
        sensitivity,
        "clip_update",
        _no_clip,
        "gaussian-update_clip-update",
        "the update is not clipped",
    ),
    "count": Bug(
        dp_fedavg,
        "update_multiplier",
        _half_count,
        "dp_fedavg-update_clip-adaptive_clip",
        "the count of clipped updates is noised as if a client moved it by ½ (G4)",
    ),
    "partial_cohort": Bug(
        Ledger,
        "record",
        _full_cohort,
        "dp_fedavg-update_clip-partial_cohort",
        "a partial cohort is claimed as a full one (G7)",
    ),
    "release": Bug(
        release,
        "randomized_response_release",
        _as_it_is,
        "fedsva-update_clip-randomized_response",
        "R is released without noise",
    ),
    "shared_key": Bug(
        prng,
        "stream_key",
        _one_noise_key,
        "gaussian-update_clip-two_uploads",
        "all clients draw their noise from one key",
    ),
    "cap": Bug(
        cohort,
        "sample_cohort",
        _no_cap,
        "gaussian-update_clip-promise",
        "the promise does not end a client's uploads",
    ),
    "batch_divisor": Bug(
        local_training,
        "_per_example_gradient",
        _batch_of_the_present,
        "gaussian-per_example-record_left_out",
        "a batch is divided by its records that have a gradient, not by B",
    ),
    "trained_on_all": Bug(
        private_query,
        "divided",
        _all_public,
        "nbafl-attribute_records-private_record",
        "public training reads the private records too",
    ),
    "query_noise": Bug(
        noise,
        "add_gaussian_noise",
        _half_noise,
        "gaussian-attribute_records-private_record",
        "the private query's noise has half its standard deviation",
    ),
    "query_divisor": Bug(
        private_query,
        "mean_clipped_gradient",
        _query_of_the_present,
        "gaussian-attribute_records-private_record_left_out",
        "the private query is divided by its records that have a gradient, not by |P|",
    ),
    "divided_twice": Bug(
        sensitivity,
        "query_bound",
        _divided_twice,
        "gaussian-attribute_records-private_record",
        "the private query's noise is divided by |P| twice",
    ),
    "sharers": Bug(
        sensitivity,
        "root_sharers",
        _too_many_sharers,
        "nbafl-update_clip-shared_noise",
        "a share of the cohort's noise is divided by K − h, not by its root",
    ),
    "colluders": Bug(
        ledger,
        "averaged_multiplier",
        _nothing_known,
        "gaussian-update_clip-colluders",
        "the noise that colluders know is counted against them",
    ),
    "votes": Bug(
        lazy,
        "randomized_response",
        _plain_votes,
        "influence_filter-votes-votes",
        "votes are reported without randomised response",
    ),
}


@contextlib.contextmanager
def planted(bug: Bug | None) -> Iterator[None]:
    """The package with a bug, or as it is."""
    if bug is None:
        yield
        return
    faulty = bug.faulty(getattr(bug.where, bug.function))
    with mock.patch.object(bug.where, bug.function, faulty):
        yield


def define_flags() -> None:
    """Defines which bugs are planted and how often."""
    flags.DEFINE_list("planted_bugs", ["all"], "Bugs to plant; `all` takes all.")
    flags.DEFINE_integer(
        "bug_seeds",
        40,
        "Seeds, from --seed on, with which every planted bug is audited.",
        lower_bound=1,
    )


def flagged_seeds(
    setting: audit_play.Setting,
    case: Case,
    bug: Bug | None,
    seeds: range,
    num_claims: int,
) -> dict[str, list[Any]]:
    """The case's smallest p-value by seed, and the seeds in which it flags the case.

    Args:
      setting: of the games.
      case: which is played.
      bug: planted while the case is compiled and played; None for none.
      seeds: to play it with.
      num_claims: of the whole audit, each of which is one hypothesis.
    """
    with planted(bug):
        prepared = audit_play.prepare(setting, case)
        least = [
            min(
                p
                for row in audit_play.rows_of(setting, case, prepared, seed)
                for p in row["p_values"].values()
            )
            for seed in seeds
        ]
    return {
        "p_values": least,
        "flagged": [
            seed
            for seed, p in zip(seeds, least, strict=True)
            if p <= _LEVEL / num_claims
        ],
    }


def run(values: flags.FlagValues, config: ExperimentConfig) -> None:
    """Plants every bug, and plays its case with it and without it."""
    audit.refuse_unread(values)
    names = list(BUGS) if values.planted_bugs == ["all"] else values.planted_bugs
    unknown = [name for name in names if name not in BUGS]
    if unknown:
        raise ValueError(
            f"planted_bugs must be among {', '.join(BUGS)}, got {unknown[0]!r}"
        )
    cases = {case.name: case for case in audit.audited_cases(["all"], config)}
    num_claims = audit_play.most_claims(cases.values())
    setting = audit_play.make_setting(
        config, values.audit_examples, values.audit_trials
    )
    seeds = range(config.seed, config.seed + values.bug_seeds)
    folder = RunFolder(values.output_dir)
    chosen = {
        "attack": values.attack,
        "planted_bugs": names,
        "audit_trials": values.audit_trials,
        "audit_examples": values.audit_examples,
        "bug_seeds": values.bug_seeds,
    }
    folder.start(
        dataclasses.asdict(config) | environment() | chosen, resume=values.resume
    )
    rows = []
    for name in tqdm(names, unit="bug", disable=None):
        bug = BUGS[name]
        play = partial(flagged_seeds, setting, cases[bug.case])
        played = {
            which: finished_or_made(
                folder, f"{name}-{which}", partial(play, planted, seeds, num_claims)
            )
            for which, planted in (("planted", bug), ("correct", None))
        }
        rows.append({"bug": name, "says": bug.says, "case": bug.case, **played})
    results = {
        "attack": values.attack,
        "trials": values.audit_trials,
        "seeds": len(seeds),
        "claims": num_claims,
        "rows": rows,
    }
    write_json(folder.path / "results.json", results)
    print(aligned(_rows(results)))
    command.print_files(folder.path / n for n in ("config.json", "results.json"))


_HEAD = ("planted bug", "case of the audit", "seeds that flag it", "flagged without it")


def _rows(results: dict[str, Any]) -> list[dict[str, str]]:
    return [dict(zip(_HEAD, line, strict=True)) for line in _lines(results)]


def _lines(results: dict[str, Any]) -> list[tuple[str, ...]]:
    count = results["seeds"]
    return [
        (
            row["says"],
            row["case"].replace("_", " ").replace("-", ", "),
            f"{len(row['planted']['flagged'])} of {count}",
            f"{len(row['correct']['flagged'])} of {count}",
        )
        for row in results["rows"]
    ]


def page(results: dict[str, Any]) -> str:
    """The table of docs/attacks.md."""
    return (
        f"{results['trials']} games in each world; a seed flags a bug where a claim's "
        f"p-value is at most .05/{results['claims']}.\n\n"
        f"{markdown(_rows(results))}"
    )
