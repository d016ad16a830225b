"""Audit: every printed ε beside a lower bound that canaries prove.

The adversary sees what the mechanism releases, and knows both of two neighbouring
worlds, all settings and all other clients: everything except which of the two it sees.

For each mechanism and clipping, the worlds are played --audit_trials times each through
the mechanism's own code (fedsvp_jax/attacks/audit.py). The pairs of worlds are the
worst that are known:

    granted              the upload moves by the claimed bound: noise and composition
    record               one record of real local training on a linear loss is replaced
    client               all of a client's records are replaced, in the same way
    update               the update is replaced by its opposite, both beyond the clip
    presence             an update beyond the clip against none (add or remove a client)
    record left out      a record of real local training has no gradient in one world
    record in secret batches
                         the same, in Poisson batches that the adversary does not know
    record in several secret batches, record in summed secret batches
                         the same in four batches of an upload; and in the sum of a
                         cohort that shares its noise
    person, person left out, person in secret batches
                         three or four records of one person, all at once
    private record, private record left out
                         the same of a record of the private attribute, by the private
                         query after real public training (attribute_records)
    private record asked later
                         the same, where the first rounds do not ask for the query
    ratio                the upload stays the same, R goes from 1 to 0 (fedsva, fedsdp)
    past norm            the length of the past update differs (mechanism reestimation)
    two uploads          as "update", seen as the difference to another client's upload
    partial cohort       as "presence", with 2 clients in a cohort planned for more
    shared noise         as "update", in the sum of a cohort that shares its noise
    colluders            as "shared noise" or "private record" in such a sum; the
                         adversary also knows the noise of 7 of the other clients
    unequal weights      as "update", in the average of a cohort of unequal clients
    bands                as "presence", with noise that is correlated over the rounds
    discrete noise       as "update", in whole numbers of a grid, with the rounding's
                         coins known
    adaptive clip        as "presence"; the adversary also sees the clip that adapts
    promise              as "presence", until --total_epsilon ends the client's uploads
    laplace, randomized response
                         update and R are both replaced; R's release is seen too

The claims are the ledger's, from the noise that was really applied: after one upload
and after all of --num_rounds rounds, by basic composition (at the sum of the δ), RDP
and PLD (at --target_delta). They hold against the server, or for dp_fedavg against
whoever sees the average. In the row "promise" the promised ε is one more claim.

  holds      the audit contradicts no claim
  VIOLATED   it contradicts a claim about this pair of worlds
  no claim   it contradicts the printed number, which is not about this pair

An audited bound is the larger of two lower bounds at 95 % (Clopper-Pearson and
Gaussian). The Gaussian one is left out where the two worlds are not two
shifted Gaussians. A verdict counts all rows: Holm's test over all claims of all rows
contradicts a true claim with a probability of at most 5 %. A bound may therefore
exceed a claim in a row that holds.

  fedsvp attack --attack=audit --output_dir=runs/audit

No data set is read; --dataset only selects the defaults of other settings. A piece of
the work is a case.
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from functools import partial

from absl import flags

from fedsvp_jax import mechanisms
from fedsvp_jax.attacks.epsilon_bounds import require_auditor
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.files import Record
from fedsvp_jax.core.student import holm_adjusted

from .. import printed
from . import audit_play
from .audit_cases import Case, cases_of
from .work import Work


def audited_cases(names: list[str], config: ResolvedConfig) -> list[Case]:
    """The cases of the named mechanisms, or of everything that adds noise.

    Raises:
      ValueError: a name is unknown, or adds no noise.
    """
    if names == ["all"]:
        names = [name for name in mechanisms.mechanism_names() if name != "none"]
    if "none" in names:
        raise ValueError(
            "audit_mechanisms must add noise, got 'none', which has no ε to audit"
        )
    return [case for name in names for case in cases_of(name, config)]


def with_verdicts(rows: Sequence[Record]) -> list[Record]:
    """The rows of one seed with the claims that Holm's test rejects, and a verdict.

    The family is every claim of every row: with a probability of 95 % no true claim is
    among the rejected.
    """
    p_values = [p for row in rows for p in row["p_values"].values()]
    rejected = iter(holm_adjusted(p_values) <= 0.05)
    with_status = []
    for row in rows:
        beaten = [name for name in row["p_values"] if next(rejected)]
        refuted = "VIOLATED" if row["claimed"] else "no claim"
        with_status.append(
            row | {"beaten": beaten, "status": refuted if beaten else "holds"}
        )
    return with_status


def prepare(values: flags.FlagValues, config: ResolvedConfig) -> Work:
    """Every case of every mechanism, played with each seed."""
    require_auditor()  # before hours of games, not after them
    cases = audited_cases(values.audit_mechanisms, config)
    trials = values.audit_trials
    setting = audit_play.make_setting(config, values.audit_examples, trials)
    seeds = range(config.seed, config.seed + values.audit_seeds)

    def play(case: Case) -> list[list[Record]]:
        prepared = audit_play.prepare(setting, case)
        return [audit_play.rows_of(setting, case, prepared, seed) for seed in seeds]

    def finish(rows_by_case: Record, folder: pathlib.Path) -> Record:
        by_seed = [
            with_verdicts([row for part in rows for row in part])
            for rows in zip(*rows_by_case.values(), strict=True)
        ]
        # The first seed's rows, each with the number of seeds in which it is VIOLATED.
        rows = [
            same_row[0]
            | {"violated_in": sum(row["status"] == "VIOLATED" for row in same_row)}
            for same_row in zip(*by_seed, strict=True)
        ]
        printed.print_rows("attack_audit.txt", rows, folder, num_seeds=len(seeds))
        return {"trials": trials, "seeds": [*seeds], "rows": rows}

    return Work(
        data=None,
        settings=dataclasses.asdict(config),
        pieces={case.name: partial(play, case) for case in cases},
        finish=finish,
    )
