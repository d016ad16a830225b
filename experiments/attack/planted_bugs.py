"""The audit of the package with a bug planted, where it must flag it.

A bug replaces one function of the package by a faulty one, while the claims stay what
they are (`bugs.py`). The case of the audit that should see it is then played. A seed
flags the bug if a claim of the case is contradicted at .05 divided by the number of all
claims of a whole audit: then Holm's test flags it in the whole audit too, whatever the
other cases show.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from . import audit_play
from .audit_cases import Case
from .bugs import Bug

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
