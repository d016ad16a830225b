"""What a vote, a tester's test set and a contribution cost in privacy.

All of it is known before the filter runs.
"""

import math
from typing import NamedTuple

from fedsvp_jax.accounting import FilterCost, composed_epsilon
from fedsvp_jax.filter_settings import FilterSettings


def vote_epsilon(flip_probability: float) -> float:
    """The published ε of one vote: 2·ln((1 − f/2)/(f/2)); inf at f = 0.

    The formula is RAPPOR's 2h·ln(…) for h = 1 hash function. Its factor 2 counts the
    two bits in which the Bloom filters of two values differ. A vote is one bit, so its
    tight ε is half of that: `exact_vote_epsilon`.

    Args:
      flip_probability: f of `lazy.randomized_response`.

    Raises:
      ValueError: f outside [0, 1].

    Source: lazy influence (arXiv 2205.11518), eq. 5.
    """
    return 2.0 * exact_vote_epsilon(flip_probability)


def exact_vote_epsilon(flip_probability: float) -> float:
    """The tight ε of one vote: ln((1 − f/2)/(f/2)); inf at f = 0.

    The report +1 has the probability 1 − f/2 if the vote is +1 and f/2 if it is −1
    (Warner 1965); ε is the logarithm of their ratio.

    Args:
      flip_probability: f of `lazy.randomized_response`.

    Raises:
      ValueError: f outside [0, 1].
    """
    if not 0 <= flip_probability <= 1:
        raise ValueError(f"flip_probability must be in [0, 1], got {flip_probability}")
    if flip_probability == 0:
        return math.inf
    return math.log((1 - flip_probability / 2) / (flip_probability / 2))


def flip_probability(epsilon: float) -> float:
    """The f at which `vote_epsilon` is ε: 2/(1 + e^(ε/2)); 0 for ε = inf.

    Args:
      epsilon: published ε of one vote.

    Raises:
      ValueError: ε not > 0.
    """
    if not epsilon > 0:
        raise ValueError(f"vote_epsilon must be > 0, got {epsilon}")
    return 2.0 * math.exp(-epsilon / 2) / (1.0 + math.exp(-epsilon / 2))


class Guarantees(NamedTuple):
    """What the filter costs in privacy; an ε is inf where no noise hides anything."""

    flip_probability: float  # f
    keep_probability: float  # 1 − f/2: probability that a report equals the vote
    vote_published: float  # ε of one vote as published
    vote: float  # ε of one vote, tight
    num_votes: int  # votes that one test set casts in a pass
    test_set_basic: float  # ε of all votes of a test set: num_votes · vote
    test_set_advanced: float  # the same at δ, by advanced composition
    test_set_pld: float  # the same at δ, by privacy loss distributions
    contribution: float  # ε at δ of a contributor's batch against another batch
    participant_pld: float  # ε at δ of all that one participant sends, likewise by PLD
    delta: float  # δ of the ε above that are at δ


def filter_cost(
    settings: FilterSettings, *, num_participants: int, delta: float, passes: int = 1
) -> FilterCost:
    """What passes of the filter add to a ledger, for each participant.

    A contribution is clipped to C as one vector, so replacing the batch, one record of
    it or all, changes it by at most 2C, and the noise multiplier under that replacement
    is z/2. It assumes nothing but that clip. A vote is one bit of the tester's data and
    of contributions that were released before, so its randomised response is (ε, 0)-DP
    under any change of the tester's data.

    Args:
      settings: `contribution_noise` is z, the std of a contribution's Gaussian noise
        divided by its clip C, 0 for no noise; `vote_epsilon` is ε as the function of
        that name defines it, inf for votes that are reported as they are.
      num_participants: contributors, each tested by all the others.
      delta: δ of one contribution's ε.
      passes: how often the filter runs on the same participants.
    """
    claimed, noise_multiplier = math.inf, settings.contribution_noise
    if noise_multiplier > 0:
        claimed = composed_epsilon("gdp", (noise_multiplier / 2) ** -2, delta)
    return FilterCost(
        passes=passes,
        contribution_multiplier=noise_multiplier / 2,
        contribution_epsilon=claimed,
        contribution_delta=delta if noise_multiplier > 0 else 0.0,
        votes_per_pass=num_participants - 1,
        epsilon_per_vote=exact_vote_epsilon(flip_probability(settings.vote_epsilon)),
    )


def guarantees(
    settings: FilterSettings, *, num_participants: int, delta: float, passes: int = 1
) -> Guarantees:
    """The privacy cost of each participant, before it takes part.

    One record of a tester's test set may change each of its votes, so the test set
    pays for all of them. Advanced composition (Dwork, Rothblum and Vadhan 2010) of k
    votes is ε·sqrt(2k·ln(1/δ)) + k·ε·(e^ε − 1), which exceeds the basic sum k·ε where
    k is small.

    The same vote is reported the same way in every pass, as published, so that repeated
    passes cannot average the noise away. A vote that changes between two passes may
    however show as a report that changes, which an unchanged vote never does. No finite
    ε covers that, so with several passes every ε of the votes is inf.

    Args:
      settings, num_participants, passes: as in `filter_cost`.
      delta: δ of the composed test set and of the contribution.
    """
    cost = filter_cost(
        settings, num_participants=num_participants, delta=delta, passes=passes
    )
    flip = flip_probability(settings.vote_epsilon)
    once = exact_vote_epsilon(flip) if passes == 1 else math.inf
    answers = num_participants - 1
    advanced = math.inf
    if math.isfinite(once):
        advanced = once * math.sqrt(2 * answers * math.log(1 / delta))
        advanced += answers * once * math.expm1(once)

    def spent(method: str, precision: float, votes: int) -> float:
        return composed_epsilon(
            method, precision, delta, votes=votes, vote_epsilon=cost.vote_epsilon
        )

    return Guarantees(
        flip_probability=flip,
        keep_probability=1 - flip / 2,
        vote_published=2 * once,
        vote=once,
        num_votes=answers,
        test_set_basic=answers * once if answers else 0.0,
        test_set_advanced=advanced,
        test_set_pld=spent("pld", 0.0, cost.votes),
        contribution=spent("gdp", cost.precision, 0),
        participant_pld=spent("pld", cost.precision, cost.votes),
        delta=delta,
    )
