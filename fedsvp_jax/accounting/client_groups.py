"""Clients that are promised an ε of their own: which of them a claim is about."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from fedsvp_jax.accounting.participation import Promised
from fedsvp_jax.accounting.recorded import Recorded

PUBLIC = (
    "which client is promised which ε was decided by public facts, without a look at "
    "the records"
)
_FOR = "; for the "
_MOST_GROUPS = 8  # in a table; of more the smallest and the largest ε
_MOST_NAMED = 8  # clients of a group
AnyClaim = TypeVar("AnyClaim", bound=Any)


def shown(account: Recorded) -> list[tuple[Promised, Recorded]]:
    """The groups that a table of claims shows, each with its account, by ε."""
    found = list(zip(account.promised, account.parts, strict=True))
    return [found[0], found[-1]] if len(found) > _MOST_GROUPS else found


def words(epsilon: float, clients: Sequence[int]) -> str:
    """`2 clients promised ε = 1 (0, 3)`, behind "the"."""
    count, named = len(clients), clients[:_MOST_NAMED]
    listed = ", ".join(map(str, named))
    more = f" and {count - len(named)} more" if count > len(named) else ""
    who = "client" if count == 1 else f"{count} clients"
    return f"{who} promised ε = {epsilon:g} ({listed}{more})"


def smallest_and_largest(guarantees: Iterable[Mapping[str, Any]]) -> list[float]:
    """The ε promised by client in a table of claims; [] where all have one."""
    found = [
        float(row["epsilon"])
        for row in guarantees
        if str(row["method"]).startswith("promise") and _FOR in str(row["relation"])
    ]
    return [min(found), max(found)] if found else []


def of_group(claim: AnyClaim, promised: Promised, method: str = "") -> AnyClaim:
    """The claim, a `claims.Claim`, about these clients alone."""
    return claim._replace(
        relation=f"{claim.relation}{_FOR}{words(promised.epsilon, promised.clients)}",
        method=", ".join(filter(None, (claim.method, method))),
    )


def by_client(account: Recorded) -> dict[str, np.ndarray]:
    """(M,) for summary.json: the ε promised to each client, and spent by Rényi DP.

    Nothing where one promise is for all.
    """
    if not account.promised:
        return {}
    promised = np.zeros(len(account.uploads))
    for one in account.promised:
        promised[list(one.clients)] = one.epsilon
    spent = [account.epsilon_spent("rdp", None, i) for i in range(len(promised))]
    return {"promised": promised, "epsilon_rdp": np.asarray(spent)}
