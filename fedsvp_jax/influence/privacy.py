"""What a vote, a tester's test set and a contribution cost; all known in advance."""

import math
from typing import NamedTuple

import numpy as np

from fedsvp_jax.accounting import Ledger, composed_epsilon


def vote_epsilon(flip_probability: float) -> float:
    """The published price of a vote: ε = 2·ln((1 − f/2)/(f/2)), inf at f = 0.

    It is RAPPOR's 2h·ln(…) for h = 1 hash function, whose factor 2 counts the two bits
    that differ between two values in a Bloom filter. A vote is one bit: see
    `exact_vote_epsilon`.

    Raises:
      ValueError: f outside [0, 1].

    Source: lazy influence (arXiv 2205.11518), eq. 5.
    """
    return 2.0 * exact_vote_epsilon(flip_probability)


def exact_vote_epsilon(flip_probability: float) -> float:
    """ln((1 − f/2)/(f/2)): the largest log-ratio of an answer's chances.

    A vote +1 is reported +1 w.p. 1 − f/2 and a vote −1 w.p. f/2 (Warner 1965).

    Raises:
      ValueError: f outside [0, 1].
    """
    if not 0 <= flip_probability <= 1:
        raise ValueError(f"flip_probability must be in [0, 1], got {flip_probability}")
    if flip_probability == 0:
        return math.inf
    return math.log((1 - flip_probability / 2) / (flip_probability / 2))


def flip_probability(epsilon: float) -> float:
    """f whose published price is ε: 2/(1 + e^(ε/2)); 0 for ε = inf.

    Raises:
      ValueError: ε not > 0.
    """
    if not epsilon > 0:
        raise ValueError(f"vote_epsilon must be > 0, got {epsilon}")
    return 2.0 * math.exp(-epsilon / 2) / (1.0 + math.exp(-epsilon / 2))


class Guarantees(NamedTuple):
    """What one pass of the filter costs; every ε inf where nothing is hidden."""

    flip_probability: float  # f
    keep_probability: float  # 1 − f/2: how often a report is the vote
    vote_published: float  # ε of a vote as published
    vote: float  # ε of a vote, exact
    num_votes: int  # answers that one test set gives in the pass
    test_set_basic: float  # ε of a test set: num_votes · ε
    test_set_advanced: float  # the same at δ by the advanced theorem
    test_set_pld: float  # the same at δ, composed exactly
    contribution: float  # ε of a contributor's Gaussian at δ, replace the batch
    delta: float  # δ of the last three


def guarantees(
    *,
    num_participants: int,
    vote_epsilon_published: float,
    noise_multiplier: float,
    delta: float,
    passes: int = 1,
) -> Guarantees:
    """The price list that every participant can ask for before it takes part.

    A record of a tester's test set may change each of its votes, so that the set pays
    for all of them. Advanced composition (Dwork, Rothblum and Vadhan 2010) of k votes:
    ε·sqrt(2k·ln(1/δ)) + k·ε·(e^ε − 1); it is above the basic sum where k is small.

    Votes are remembered by value, as published. Over several passes that stops
    averaging, but a vote that changes may show as a report that changes, to which no
    finite ε belongs: then every ε of the votes is inf.

    Args:
      num_participants: contributors, each tested by all the others.
      vote_epsilon_published: ε of `vote_epsilon`; inf for votes that are not hidden.
      noise_multiplier: z, the std of the contribution's Gaussian over its clip C.
      delta: δ at which the compositions and the Gaussian are read.
      passes: how often the filter runs on the same participants.
    """
    flip = flip_probability(vote_epsilon_published)
    once = exact_vote_epsilon(flip)
    answers = num_participants - 1
    hidden = math.isfinite(once) and passes == 1
    basic = advanced = composed = math.inf
    if hidden:
        basic = answers * once
        advanced = once * math.sqrt(2 * answers * math.log(1 / delta))
        advanced += answers * once * math.expm1(once)
        composed = composed_epsilon(
            "pld", 0.0, delta, releases=answers, release_epsilon=once
        )
    ledger = contribution_ledger(
        num_participants, noise_multiplier=noise_multiplier, delta=delta, passes=passes
    )
    return Guarantees(
        flip_probability=flip,
        keep_probability=1 - flip / 2,
        vote_published=2 * once if hidden else math.inf,
        vote=once if hidden else math.inf,
        num_votes=answers,
        test_set_basic=basic,
        test_set_advanced=advanced,
        test_set_pld=composed,
        contribution=ledger.epsilon_spent("gdp", delta),
        delta=delta,
    )


def contribution_ledger(
    num_participants: int, *, noise_multiplier: float, delta: float, passes: int = 1
) -> Ledger:
    """The contributors' own ledger: one clipped last layer with noise a pass.

    The update is clipped to C as a whole, so another batch moves it by 2C at most:
    z/2 is the noise multiplier under replacement, of a record or of all of them.
    Proved, since nothing but that clip is assumed.
    """
    ledger = Ledger(num_participants, proved=True)
    everyone = np.arange(num_participants)
    claimed = math.inf
    if noise_multiplier > 0:
        claimed = composed_epsilon("gdp", (noise_multiplier / 2) ** -2, delta)
    for number in range(1, passes + 1):
        ledger.record(
            everyone,
            round_num=number,
            noise_multiplier=np.full(num_participants, noise_multiplier / 2),
            noise_std=np.full(num_participants, noise_multiplier),
            epsilon=np.full(num_participants, claimed),
            delta=np.full(num_participants, delta if noise_multiplier > 0 else 0.0),
        )
    return ledger
