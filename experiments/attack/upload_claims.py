"""The claim of one upload, as results keep it."""

from typing import Any

import numpy as np

from fedsvp_jax.accounting import Account
from fedsvp_jax.accounting.claims import adversary, upload_status
from fedsvp_jax.core.files import Record

NOTHING = dict.fromkeys(("epsilon", "delta", "status", "adversary", "relation"))


def claim_of_upload(account: Account, epsilon: Any, delta: Any) -> Record:
    """The fields of `NOTHING`, of the largest ε and δ; None in all for no claim."""
    epsilon, delta = float(np.max(epsilon)), float(np.max(delta))
    status = upload_status(account, epsilon, delta)
    relation = account.mechanism.basis.relation
    claim = (epsilon, delta, status, adversary(account), relation)
    return NOTHING if status is None else dict(zip(NOTHING, claim, strict=True))


def least_noised(account: Account) -> Record:
    """`claim_of_upload` for the least noise that the mechanism may add."""
    mechanism = account.mechanism
    return claim_of_upload(account, mechanism.most_epsilon, mechanism.most_delta)
