"""Every planted bug is flagged; the package without it is not."""

import functools

import more_cases
import pytest
from planted_bugs import BUGS, is_flagged, most_claims

from experiments.attack import SETTINGS, audit, audit_play
from experiments.attack.audit_cases import Case
from fedsvp_jax.config import ExperimentConfig, resolve

CONFIG = resolve(ExperimentConfig(**SETTINGS["audit"]["defaults"]))
QUICK = (
    "the count of clipped updates is noised as if a client moved it by ½",
    "R is released without noise",
    "a deployed client adds no share to the sum where its update is 0",
)


@functools.cache  # making the mechanisms takes a second, which collection shall not
def cases() -> dict[str, Case]:
    special = [more_cases.VOTES, more_cases.CONTRIBUTION, more_cases.DEPLOYED]
    return {c.name: c for c in [*audit.audited_cases(["all"], CONFIG), *special]}


# Three stand for all in every run of the suite; the others are slow to compile.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in BUGS
    ],
)
def test_a_planted_bug_is_flagged_with_a_margin(name: str):
    bug = BUGS[name]
    # A deployed client's games are played one by one.
    games = 300 if bug.case == more_cases.DEPLOYED.name else 1000
    setting = audit_play.make_setting(CONFIG, 100, games)
    claims = 10 * most_claims(cases().values())
    assert is_flagged(setting, cases()[bug.case], bug, claims)
    right = getattr(bug.where, bug.function)
    assert right.__name__ == bug.function  # nothing stays planted
