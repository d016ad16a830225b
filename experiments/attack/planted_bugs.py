"""Planted bugs: how often the audit flags code that does not keep its ε.

A bug replaces one function of the package by a faulty one, while the claims stay what
they are. The case of the audit that should see it is then played with --bug_seeds
seeds, --audit_trials games in each world. A seed flags the bug if a claim of the case
is contradicted at .05 divided by the number of all claims of a whole audit: then Holm's
test flags it in the whole audit too, whatever the other cases show. The same case is
played without the bug, where nothing may be flagged.

The bugs stand in `bugs.py`.

  python -m experiments.attack --attack=planted_bugs --output_dir=runs/bugs

Written to --output_dir: config.json, pieces/ (one file per finished bug, from which
--resume continues), results.json.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

from absl import flags
from tqdm import tqdm

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.run.files import write_json

from .. import command, flag_values, printed
from . import audit, audit_claims, audit_play
from .audit_cases import DEPLOYED, Case, cases_of
from .bugs import BUGS, Bug
from .resumable import finished_or_made

DEFAULTS = audit.DEFAULTS
_LEVEL = 0.05


@contextlib.contextmanager
def planted(bug: Bug | None) -> Iterator[None]:
    """The package with a bug, or as it is."""
    if bug is None:
        yield
        return
    right = getattr(bug.where, bug.function)

    def faulty(*arguments: Any, **named: Any) -> Any:  # a method too, which binds
        return bug.faulty(right, *arguments, **named)

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
    flag_values.refuse_unknown("planted_bugs", names, BUGS)
    of_all = audit.audited_cases(["all"], config)
    cases = {case.name: case for case in (*of_all, *cases_of(DEPLOYED, config))}
    num_claims = audit_claims.most_claims(of_all)
    setting = audit_play.make_setting(
        config, values.audit_examples, values.audit_trials
    )
    seeds = range(config.seed, config.seed + values.bug_seeds)
    folder = command.start_folder(
        values,
        dataclasses.asdict(config),
        attack=values.attack,
        planted_bugs=names,
        audit_trials=values.audit_trials,
        audit_examples=values.audit_examples,
        bug_seeds=values.bug_seeds,
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
    print(printed.table(_rows(results)))
    command.print_files(folder.path / n for n in ("config.json", "results.json"))


def _rows(results: dict[str, Any]) -> list[dict[str, str]]:
    count = results["seeds"]
    return [
        {
            "planted bug": row["says"],
            "case of the audit": row["case"].replace("_", " ").replace("-", ", "),
            "seeds that flag it": f"{len(row['planted']['flagged'])} of {count}",
            "flagged without it": f"{len(row['correct']['flagged'])} of {count}",
        }
        for row in results["rows"]
    ]
