"""The claim of one upload, as results keep it and as tables show it."""

from typing import Any

import numpy as np

from fedsvp_jax.accounting import Account
from fedsvp_jax.accounting.claims import adversary, meaning, upload_status
from fedsvp_jax.core.files import Record
from fedsvp_jax.report import labels

NOTHING = dict.fromkeys(("epsilon", "delta", "status", "adversary", "relation"))


def claim_of_upload(account: Account, epsilon: Any, delta: Any) -> Record:
    """The fields of `NOTHING`, of the largest ε and δ; None in all for no claim."""
    epsilon, delta = float(np.max(epsilon)), float(np.max(delta))
    status = upload_status(account, epsilon, delta)
    relation = account.mechanism.claim.relation
    claim = (epsilon, delta, status, adversary(account), relation)
    return NOTHING if status is None else dict(zip(NOTHING, claim, strict=True))


def least_noised(account: Account) -> Record:
    """`claim_of_upload` for the least noise that the mechanism may add."""
    mechanism = account.mechanism
    return claim_of_upload(account, mechanism.most_epsilon, mechanism.most_delta)


def claim_text(row: Record) -> str:
    """`0.1 at δ = 1e-05 (nominal; against: …)`; a dash where nothing is claimed."""
    if row["status"] is None:
        return labels.significant(None)
    epsilon, delta = (labels.significant(row[name], 3) for name in ("epsilon", "delta"))
    return labels.marked(f"{epsilon} at δ = {delta}", meaning(row, row["status"]))
