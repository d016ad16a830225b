"""The parts of the mutation run: modules, and the tests that must notice a mistake."""

import re
from typing import NamedTuple


class Part(NamedTuple):
    """Modules of fedsvp_jax, and what pytest is told to run for their mutants.

    Attributes:
      modules: below fedsvp_jax.
      tests: files and folders.
      left_out: words in the names of tests that take too long to be run for a mutant.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def _paths(text: str) -> list[str]:
    """`a/{b,c} d` -> `a/b.py`, `a/c.py`, `d.py`; a folder's name ends in /."""
    found = []
    for word in text.split():
        start, names, end = re.match(r"([^{]*)\{?([^}]*)\}?(.*)", word).groups()  # type: ignore[union-attr]
        for name in names.split(","):
            path = f"{start}{name}{end}"
            found.append(path.removesuffix("/") if path[-1] == "/" else f"{path}.py")
    return found


def _part(modules: str, tests: str, left_out: str = "") -> Part:
    return Part(
        tuple(_paths(modules)),
        tuple(f"tests/{path}" for path in _paths(tests)),
        tuple(left_out.split()),
    )


def _room(room: str, names: str, left_out: str = "") -> Part:
    """Modules of one room, with the tests that are named like them, and refusals."""
    tests = f"{room}/test_{{{names}}} test_refusals"
    return _part(f"{room}/{{{names}}}", tests, left_out)


PARTS = {
    "accounting": _part(
        "accounting/{recorded,claims,composition,copies,promise,views}",
        "accounting/ federation/test_client_promises",
        "pld drawn_settings two_other",
    ),
    "noise": _room("mechanisms", "calibration,noise,played,release"),
    "mechanisms": _room("mechanisms", "shapley_guided"),
    "baselines": _room(
        "baselines",
        "correlated_noise,dp_fedavg,nbafl,reestimation,schedules",
    ),
    "shapley": _part(
        "shapley paired algorithm/{coalitions,estimators,privacy_estimation}",
        "test_{shapley,paired} algorithm/test_{estimators,privacy_estimation}",
        "sampled_values_have unanimity",
    ),
    "query": _part(
        "mechanisms/{sensitivity,shared_noise} algorithm/{private_query,round_score}",
        "mechanisms/test_{sensitivity,shared_noise} "
        "algorithm/test_{attribute_records,private_query,evaluation} "
        "test_{float32,refusals}",
        "without_private_records models_by_name logits_are_moved",
    ),
    "round": _part(
        "algorithm/{aggregation,client,cohort,federated_round,local_training}",
        "algorithm/test_{cohort,local_training,round_by_hand,streams}",
        "equally_likely shrinks uncorrelated",
    ),
    "deploy": _part(
        "deploy/{answer,chain,noise,policy,privatize,site,state,witness}",
        "deploy/test_{faults_of_sites,noise,privatize,site}",
    ),
    "votes": _part("influence/{lazy,privacy}", "influence/test_{lazy,privacy}"),
    "registry": _part(
        "mechanisms/{base,config,fixed,registry}",
        "mechanisms/test_{contract,discrete_noise,registry} test_refusals",
    ),
}
