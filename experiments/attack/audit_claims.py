"""The claims about the uploads that an audit plays."""

from collections.abc import Sequence

import jax
import numpy as np

from fedsvp_jax.accounting import Account, Participation
from fedsvp_jax.attacks.audit import Scores
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig

ACCOUNTINGS = ("basic", "rdp", "pld")

# Round, from 0 -> accounting -> ε, and `basic_delta`, the δ of basic composition.
Claims = dict[int, dict[str, float]]


def of_uploads(
    mechanism: Mechanism,
    settings: MechanismConfig,
    scores: Scores,
    present: int,
    target_delta: float,
    pooled: bool = False,
    weights: Sequence[float] | None = None,
    promised: float | None = None,
) -> Claims:
    """The claims after the first and the last round; the larger of two worlds'.

    Args:
      mechanism: whose claim it is. Where it is about the average, its view is that of
        an observer who sees the average of a whole cohort.
      settings: of the mechanism.
      scores: with the noise that was applied in every round, if any.
      present: K′, how many of the cohort's K clients took part.
      target_delta: δ of RDP and PLD.
      pooled: whether the claim is the one against colluders who know their own noise.
      weights: of a cohort in whose average an observer sees the uploads; equal ones,
        where the claim is about the average.
      promised: the ε of a promise, which is one more claim.
    """
    central = mechanism.claim.central
    if weights is not None:
        planned = present = len(weights)
    else:
        planned = settings.cohort_size if central else 1
    shares = weights or ([1 / present] * planned if central else None)
    view = "colluders" if pooled else "observer" if shares else "server"
    participation = Participation(num_clients=planned, colluders=settings.colluders)
    worlds = [Account.of(mechanism, participation)] * 2
    claims = {}
    for number, uploaded in enumerate(scores.uploaded):
        ids = np.where(
            uploaded & (np.arange(planned) < present), np.arange(planned), -1
        )
        for world, account in enumerate(worlds):
            info = jax.tree.map(
                lambda leaf, w=world, t=number: np.repeat(leaf[w, t], planned),
                scores.infos,
            )
            worlds[world] = account.record(ids, info, shares)
        if number not in (0, len(scores.uploaded) - 1):
            continue
        claims[number] = {
            method: max(
                account.epsilon_spent(method, delta=target_delta, view=view)
                for account in worlds
            )
            for method in ACCOUNTINGS
        }
        claims[number]["basic_delta"] = max(account.delta_spent() for account in worlds)
        if promised is not None:
            claims[number]["promise"] = promised
    return claims
