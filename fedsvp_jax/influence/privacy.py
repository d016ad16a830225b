"""The privacy cost of votes and contributions, known before the filter runs."""

import math

from fedsvp_jax.accounting import OtherCosts, composed_epsilon

from .settings import FilterSettings


def exact_vote_epsilon(flip_probability: float) -> float:
    """The tight ε of one vote: ln((1 − f/2)/(f/2)); inf at f = 0.

    The report +1 has the probability 1 − f/2 if the vote is +1 and f/2 if it is −1
    (Warner 1965); ε is the logarithm of their ratio. The published ε is twice that: the
    formula is RAPPOR's 2h·ln(…) for h = 1 hash function, whose factor 2 counts the two
    bits in which the Bloom filters of two values differ, and a vote is one bit.

    Args:
      flip_probability: f of `lazy.randomized_response`, in [0, 1].

    Source: lazy influence (arXiv 2205.11518), eq. 5.
    """
    if flip_probability == 0:
        return math.inf
    return math.log((1 - flip_probability / 2) / (flip_probability / 2))


def flip_probability(epsilon: float) -> float:
    """The f at which the published ε of one vote is ε > 0: 2/(1 + e^(ε/2))."""
    return 2.0 * math.exp(-epsilon / 2) / (1.0 + math.exp(-epsilon / 2))


def filter_cost(
    settings: FilterSettings, *, num_participants: int, delta: float
) -> OtherCosts:
    """The cost of the filter in a ledger, for each participant.

    A contribution is clipped to C as one vector, so replacing the batch, one record of
    it or all, changes it by at most 2C, and the noise multiplier under that replacement
    is z/2. It assumes nothing but that clip. A vote is one bit of the tester's data and
    of contributions that were released before, so its randomised response is (ε, 0)-DP
    under any change of the tester's data. One record may change each of its votes, so
    it pays for all of them.

    Args:
      settings: `contribution_noise` is z, the std of a contribution's Gaussian noise
        divided by its clip C, 0 for no noise; `vote_epsilon` is the published ε of a
        vote, inf for votes that are reported as they are.
      num_participants: contributors, each tested by all the others.
      delta: δ of one contribution's ε.
    """
    assert settings.vote_epsilon is not None
    epsilon = math.inf
    noise_multiplier = settings.contribution_noise
    if noise_multiplier > 0:
        epsilon = composed_epsilon("gdp", (noise_multiplier / 2) ** -2, delta)
    return OtherCosts(
        passes=1,
        contribution_multiplier=noise_multiplier / 2,
        contribution_epsilon=epsilon,
        contribution_delta=delta if noise_multiplier > 0 else 0.0,
        votes_per_pass=num_participants - 1,
        epsilon_per_vote=exact_vote_epsilon(flip_probability(settings.vote_epsilon)),
    )
