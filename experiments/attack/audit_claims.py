"""What is claimed of the uploads, votes and contributions that an audit plays."""

import jax
import numpy as np

from fedsvp_jax.accounting import Ledger, composed_epsilon
from fedsvp_jax.attacks.audit import Scores
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.influence import privacy
from fedsvp_jax.mechanisms import Mechanism, MechanismConfig, spends_release_budget

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
) -> Claims:
    """The ledger's claims after the first and the last round; the larger of two worlds.

    Args:
      mechanism: whose claim it is. Where it is about the average, the ledger's view is
        that of an observer who sees the average of a whole cohort.
      settings: of the mechanism.
      scores: says what noise was applied in every round, and whether there was any.
      present: K′, how many of the cohort's K clients took part.
      target_delta: δ of RDP and PLD.
      pooled: whether the claim is the one against colluders who know their own noise.
        Its basic composition is of the ε that the settings ask for.
    """
    central = mechanism.claim.central
    planned = settings.cohort_size if central else 1
    view = "colluders" if pooled else "observer" if central else "server"
    told = spends_release_budget(settings) and mechanism.needs_contribution
    ledgers = [
        Ledger(
            planned,
            proved=mechanism.claim.proved,
            colluders=settings.colluders,
            central=central and not pooled,
            concentrated=mechanism.claim.concentrated,
            subsampling=mechanism.subsampling,
        )
        for _ in range(2)
    ]
    claims = {}
    for number, uploaded in enumerate(scores.uploaded):
        ids = np.where(
            uploaded & (np.arange(planned) < present), np.arange(planned), -1
        )
        for world, ledger in enumerate(ledgers):
            info = jax.tree.map(
                lambda leaf, w=world, t=number: np.repeat(leaf[w, t], planned),
                scores.infos,
            )
            ledger.record(
                ids,
                round_num=number + 1,
                noise_multiplier=info.noise_multiplier,
                noise_std=info.noise_multiplier
                * np.where(info.noise_std > 0, info.sensitivity, 0),
                epsilon=info.epsilon,
                delta=info.delta,
                weights=np.full(planned, 1 / present) if central else None,
                release_epsilon=float(settings.release_epsilon) if told else 0.0,
            )
        if number not in (0, len(scores.uploaded) - 1):
            continue
        claims[number] = {
            method: max(
                ledger.epsilon_spent(method, target_delta, view=view)
                for ledger in ledgers
            )
            for method in ACCOUNTINGS
        }
        claims[number]["basic_delta"] = max(ledger.delta_spent() for ledger in ledgers)
    return claims


def of_votes(config: ExperimentConfig, num_votes: int) -> Claims:
    """What one pass of the influence filter claims for a tester's whole test set."""
    delta = config.target_delta
    once = privacy.exact_vote_epsilon(privacy.flip_probability(config.vote_epsilon))
    composed = {
        method: composed_epsilon(
            method, 0.0, delta, releases=num_votes, release_epsilon=once
        )
        for method in ("rdp", "pld")
    }
    return {0: {"basic": num_votes * once, **composed, "basic_delta": 0.0}}


def of_contributions(config: ExperimentConfig, num_passes: int) -> Claims:
    """What the first pass, and all, claim for a contributor's whole batch."""
    claims = {}
    for passes in {1, num_passes}:
        cost = privacy.filter_cost(
            num_participants=1,  # so without votes
            vote_epsilon_published=config.vote_epsilon,
            noise_multiplier=config.contribution_noise,
            delta=config.target_delta,
            passes=passes,
        )
        claims[passes - 1] = {
            method: composed_epsilon(method, cost.precision, config.target_delta)
            for method in ("rdp", "pld")
        } | {"basic": cost.basic_epsilon, "basic_delta": cost.delta}
    return claims
