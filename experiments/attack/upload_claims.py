"""The claims of one upload and of all of a run, as results keep them."""

from typing import Any

import numpy as np

from fedsvp_jax.accounting import Account
from fedsvp_jax.accounting.claims import adversary, planned_row, upload_status
from fedsvp_jax.core.files import Record

NOTHING = dict.fromkeys(("epsilon", "delta", "status", "adversary", "relation"))


def claim_of_upload(account: Account, epsilon: Any, delta: Any) -> Record:
    """The fields of `NOTHING`, of the largest ε and δ; None in all for no claim."""
    epsilon, delta = float(np.max(epsilon)), float(np.max(delta))
    status = upload_status(account, epsilon, delta)
    relation = account.mechanism.basis.relation
    claim = (epsilon, delta, status, adversary(account), relation)
    return NOTHING if status is None else dict(zip(NOTHING, claim, strict=True))


def of_run(account: Account) -> Record:
    """The same of a client that uploads in every round, by Rényi DP.

    `upload_epsilon` is that of one upload with the least noise. Who sees less than the
    claim's adversary learns no more.
    """
    row = planned_row(account)
    status = row["status"] and row["status"]["rdp"]
    epsilon = status and row["epsilon_spent"]["rdp"]
    claim = (epsilon, row["target_delta"], status, row["adversary"], row["relation"])
    of_upload = {"upload_epsilon": float(np.max(account.mechanism.most_epsilon))}
    return dict(zip(NOTHING, claim, strict=True)) | of_upload
