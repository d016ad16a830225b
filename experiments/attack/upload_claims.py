"""The claim of one upload, as results keep it and as tables show it."""

import numpy as np

from fedsvp_jax.accounting import Account, Participation
from fedsvp_jax.accounting.claims import adversary, meaning, upload_status
from fedsvp_jax.accounting.participation import STATS_LEAVE
from fedsvp_jax.core.files import Record
from fedsvp_jax.mechanisms import Mechanism
from fedsvp_jax.report import labels

NOTHING = dict.fromkeys(("epsilon", "delta", "status", "adversary", "relation"))


def claim_of_upload(
    mechanism: Mechanism, epsilon: float, delta: float, *, keeps_stats: bool
) -> Record:
    """The fields of `NOTHING`; None in all where nothing is claimed."""
    account = Account.of(
        mechanism, Participation(nominal=STATS_LEAVE if keeps_stats else "")
    )
    status, relation = upload_status(account, epsilon, delta), mechanism.claim.relation
    claim = (epsilon, delta, status, adversary(account), relation)
    return NOTHING if status is None else dict(zip(NOTHING, claim, strict=True))


def least_noised(mechanism: Mechanism, *, keeps_stats: bool) -> Record:
    """`claim_of_upload` for the least noise that a mechanism may add."""
    return claim_of_upload(
        mechanism,
        float(np.max(mechanism.most_epsilon)),
        float(np.max(mechanism.most_delta)),
        keeps_stats=keeps_stats,
    )


def claim_text(row: Record) -> str:
    """`0.1 at δ = 1e-05 (nominal; against: …)`; a dash where nothing is claimed."""
    if row["status"] is None:
        return labels.significant(None)
    epsilon, delta = (labels.significant(row[name], 3) for name in ("epsilon", "delta"))
    return labels.marked(f"{epsilon} at δ = {delta}", meaning(row, row["status"]))
