"""The claims about the uploads, votes and contributions that an audit plays."""

from collections.abc import Sequence

import jax
import numpy as np

from fedsvp_jax.accounting import Account, Participation, composed_epsilon
from fedsvp_jax.attacks.audit import Scores
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.influence import privacy
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
    weights: Sequence[float] | np.ndarray | None = None,
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
    """
    central = mechanism.claim.central
    if weights is not None:
        planned = present = len(weights)
    else:
        planned = settings.cohort_size if central else 1
    equal = np.full(planned, 1 / present) if central else None
    shares = equal if weights is None else weights
    averaged = shares is not None
    view = "colluders" if pooled else "observer" if averaged else "server"
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
    return claims


def of_votes(config: ExperimentConfig, num_votes: int) -> Claims:
    """The claim of one pass of the influence filter for a tester's whole test set."""
    delta = config.target_delta
    once = privacy.exact_vote_epsilon(privacy.flip_probability(config.vote_epsilon))
    composed = {
        method: composed_epsilon(method, 0.0, delta, responses=[(num_votes, once)])
        for method in ("rdp", "pld")
    }
    return {0: {"basic": num_votes * once, **composed, "basic_delta": 0.0}}


def of_contributions(config: ExperimentConfig, num_passes: int) -> Claims:
    """The claims of the first pass and of all, for a contributor's whole batch."""
    claims = {}
    for passes in {1, num_passes}:
        once = privacy.filter_cost(  # without votes
            config, num_participants=1, delta=config.target_delta
        )
        cost = once._replace(passes=passes)
        claims[passes - 1] = {
            method: composed_epsilon(method, cost.precision, config.target_delta)
            for method in ("rdp", "pld")
        } | {"basic": cost.basic_epsilon, "basic_delta": cost.delta}
    return claims
