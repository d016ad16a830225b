"""The audit of the package with a bug planted, where it must flag it.

A bug replaces one function of the package by a faulty one, while the claims stay what
they are (`bugs.py`). The case of the audit that should see it is then played.
"""

from typing import Any
from unittest import mock

from . import audit_play
from .audit_cases import Case
from .bugs import Bug


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
