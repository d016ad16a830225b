"""The account: what every client has sent, or will send, and what is claimed of it.

Everything that asks what an upload costs asks this one value: simulator, dry run,
solver, promise, stop, audit, page and deployed client. An account never changes:
`record` returns the account after a round.
"""

from functools import cached_property
from typing import Any

from fedsvp_jax.accounting import claims
from fedsvp_jax.accounting.promise import Plan
from fedsvp_jax.accounting.recorded import Recorded


class Account(Recorded):
    """`Recorded`, with what was planned before it and what is claimed after it."""

    @cached_property
    def plan(self) -> Plan:
        """The most that each round's uploads may cost, and what a promise allows."""
        return Plan(self)

    def row(self, *, last: bool) -> dict[str, Any]:
        """The privacy part of a line of metrics.jsonl: `claims.row`."""
        return claims.row(self, last=last)
